"""A bag-of-words scorer."""

from pathlib import Path

import jax
import jax.numpy as jnp

from store import read_weights


class Scorer:
    def __init__(self, weights: dict[str, jax.Array]):
        self.weights = weights
        self._forward = jax.jit(self._apply)

    @staticmethod
    def _apply(weights, tokens):
        hidden = jnp.mean(jnp.take(weights["embed"], tokens, axis=0), axis=1)
        return hidden @ weights["head"]

    @classmethod
    def from_checkpoint(cls, path: Path, shardings: dict, dtype=jnp.float32) -> "Scorer":
        """Load a scorer with its weights placed by `shardings`."""
        return cls(read_weights(path, dtype, shardings))

    def __call__(self, tokens):
        return self._forward(self.weights, tokens)
