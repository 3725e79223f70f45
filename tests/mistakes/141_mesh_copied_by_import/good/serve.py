"""Scores batches of features."""
import jax
import numpy as np

from core import layers, runtime


class Scorer:
    def __init__(self, dim=32, hidden=128):
        self.params = layers.init(jax.random.key(0), dim, hidden)
        self.fn = jax.jit(layers.score)

    def __call__(self, rows):
        return np.asarray(self.fn(self.params, rows))


def main(batches=2, batch=16):
    runtime.boot()
    scorer, rng = Scorer(), np.random.default_rng(0)
    for _ in range(batches):
        print(scorer(rng.normal(size=(batch, 32)).astype(np.float32))[:3])
    return scorer


if __name__ == "__main__":
    main()
