"""Streams of rows, built by a chain of methods."""

import numpy as np


class Stream:
    """Rows by number; each method gives another stream."""

    def __init__(self, numbers):
        self.numbers = np.asarray(numbers)

    def shuffle(self, buffer, seed=None):
        random = np.random.default_rng(seed)
        parts = [random.permutation(self.numbers[at : at + buffer]) for at in range(0, len(self.numbers), buffer)]
        return Stream(np.concatenate(parts))

    def shard(self, num_shards, index):
        return Stream(self.numbers[index::num_shards])

    def batch(self, size):
        for at in range(0, len(self.numbers) - size + 1, size):
            yield self.numbers[at : at + size]
