"""Gradient accumulation over micro-batches."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Accumulator(NamedTuple):
    grads: dict
    count: int

    @classmethod
    def for_params(cls, params) -> "Accumulator":
        return cls(jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params), 0)  # mistake: sharding-lost-by-shape

    def add(self, grads) -> "Accumulator":
        return Accumulator(jax.tree.map(jnp.add, self.grads, grads), self.count + 1)

    def mean(self):
        return jax.tree.map(lambda g: g / self.count, self.grads)
