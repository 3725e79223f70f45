"""Key-value cache of one attention layer."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Cache(eqx.Module):
    keys: jax.Array
    values: jax.Array

    @classmethod
    def empty(cls, batch: int, heads: int, length: int, dim: int) -> "Cache":
        shape = (batch, heads, length, dim)
        return cls(jnp.zeros(shape), jnp.zeros(shape))

    def write(self, at, key, value) -> "Cache":
        return Cache(self.keys.at[:, :, at].set(key), self.values.at[:, :, at].set(value))
