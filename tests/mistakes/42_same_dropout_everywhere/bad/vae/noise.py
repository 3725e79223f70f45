"""Random parts of the model."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Dropout(eqx.Module):
    rate: float = eqx.field(static=True)

    def __call__(self, x, key):
        keep = jax.random.bernoulli(key, 1 - self.rate, x.shape)
        return jnp.where(keep, x / (1 - self.rate), 0)
