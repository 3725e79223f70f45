"""Input pipeline: shuffled epochs assembled into globally sharded batches."""
import jax
import numpy as np


class Pipeline:
    def __init__(self, arrays, batch, sharding, seed=0):
        self.arrays = arrays
        self.batch = batch
        self.sharding = sharding
        self.rng = np.random.default_rng(seed)

    def _assemble(self, chunk):
        share = len(chunk) // jax.process_count()
        first = jax.process_index() * share
        chunk = chunk[first : first + share]
        return tuple(
            jax.make_array_from_process_local_data(self.sharding, a[chunk])
            for a in self.arrays
        )

    def __iter__(self):
        n = len(self.arrays[0])
        while True:
            order = self.rng.permutation(n)
            for first in range(0, n - self.batch + 1, self.batch):
                yield self._assemble(order[first : first + self.batch])
