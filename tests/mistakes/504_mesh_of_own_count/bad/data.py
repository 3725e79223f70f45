"""Examples, of which every process reads its own."""
import jax
import numpy as np


def examples(size, features):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(size, features)).astype(np.float32)
    return x, np.sin(x.sum(axis=1)).astype(np.float32)


class Loader:
    def __init__(self, x, y, rows):
        self.x, self.y = x[jax.process_index() :: jax.process_count()], y[jax.process_index() :: jax.process_count()]
        self.rows = rows

    def __iter__(self):
        for first in range(0, len(self.x) - self.rows + 1, self.rows):
            yield self.x[first : first + self.rows], self.y[first : first + self.rows]
