import dataclasses

import jax
import numpy as np


@dataclasses.dataclass
class Corpus:
    """Documents in files, some of them for each process."""

    files: list[str]
    batch_size: int

    def local_files(self):
        rank, world = jax.process_index(), jax.process_count()
        return self.files[rank::world]

    def __iter__(self):
        rows = np.concatenate([np.load(file) for file in self.local_files()])
        for i in range(0, len(rows) - self.batch_size + 1, self.batch_size):
            yield rows[i : i + self.batch_size]
