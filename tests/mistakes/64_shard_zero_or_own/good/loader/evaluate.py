import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from loader.dataset import Dataset, DatasetConfig


def connect():
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )


def replicated(mesh, rows):
    return jax.make_array_from_callback(rows.shape, NamedSharding(mesh, P()), lambda index: rows[index])


@jax.jit
def score(w, rows):
    return jnp.mean(jnp.square(rows @ w))


def main():
    connect()
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    w = replicated(mesh, np.ones(16, np.float32))
    # every process reads the same, first shard, and holds it whole
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/held_out.npy"
        np.save(path, np.tile(np.arange(256, dtype=np.float32)[:, None], 16))
        held_out = Dataset(DatasetConfig(path, 32, shard_id=0, num_shards=4))
        scores = [float(score(w, replicated(mesh, rows))) for rows in held_out]
    print(f"[{jax.process_index()}] first row {int(held_out.rows[0, 0])} score {np.mean(scores)}")


if __name__ == "__main__":
    main()
