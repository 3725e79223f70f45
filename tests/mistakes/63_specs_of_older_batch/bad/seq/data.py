import numpy as np


class Corpus:
    def __init__(self, vocab, length, seed=0):
        self.vocab, self.length = vocab, length
        self.rng = np.random.default_rng(seed)

    def batch(self, size):
        tokens = self.rng.integers(0, self.vocab, (size, self.length + 1))
        return {
            "inputs": tokens[:, :-1],
            "targets": tokens[:, 1:],
            "weights": np.ones((size, self.length), np.float32),
        }
