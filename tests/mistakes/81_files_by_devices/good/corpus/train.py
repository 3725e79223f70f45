import os
import tempfile

import jax
import numpy as np
from jax.experimental import multihost_utils

from corpus.files import Corpus


def connect():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )


def write(folder, parts, rows=4, width=16):
    """A corpus of small files, one document a row."""
    files = [f"{folder}/part-{i}.npy" for i in range(parts)]
    for i, file in enumerate(files):
        np.save(file, np.full((rows, width), i, np.int32))
    return files


def epoch(corpus):
    """How many rows this process sees, and of how many files."""
    rows, parts = 0, set()
    for batch in corpus:
        rows += len(batch)
        parts |= set(batch[:, 0].tolist())
    return rows, len(parts)


def main():
    connect()
    with tempfile.TemporaryDirectory() as folder:
        rows, parts = epoch(Corpus(write(folder, 8), batch_size=4))
    print(f"[{jax.process_index()}] files {parts}")
    total = int(np.sum(multihost_utils.process_allgather(np.array(rows))))
    print("rows of an epoch", total)


if __name__ == "__main__":
    main()
