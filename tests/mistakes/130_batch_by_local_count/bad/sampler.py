"""Shuffled index sampler; every process draws its own consecutive part."""
import jax
import numpy as np


def dataset(size, features):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, features)).astype(np.float32)
    y = np.tanh(x[:, 0]) + 0.3 * x[:, 1] ** 2 + 0.2 * rng.normal(size=size)
    return x, y.astype(np.float32)


class Sampler:
    def __init__(self, size, per_process, seed=0):
        self.order = np.random.default_rng(seed).permutation(size)
        self.per_process = per_process
        self.stride = per_process * jax.process_count()

    def __getitem__(self, step):
        first = step * self.stride + jax.process_index() * self.per_process
        return self.order[np.arange(first, first + self.per_process) % len(self.order)]
