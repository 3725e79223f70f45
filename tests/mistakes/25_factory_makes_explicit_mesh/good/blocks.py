"""Residual blocks with constrained activations."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


class Block:
    def __init__(self, mesh: Mesh, dim: int, hidden: int):
        self.dim, self.hidden = dim, hidden
        self.inner = NamedSharding(mesh, P("data", "model"))

    def init(self, key):
        k1, k2 = jax.random.split(key)
        return (
            jax.random.normal(k1, (self.dim, self.hidden)) * 0.1,
            jax.random.normal(k2, (self.hidden, self.dim)) * 0.1,
        )

    def __call__(self, weights, x):
        w1, w2 = weights
        h = jnp.tanh(x @ w1)
        h = jax.lax.with_sharding_constraint(h, self.inner)
        return x + h @ w2
