"""A feed-forward model with logical axis names."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class FeedForward(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        init = nn.initializers.lecun_normal()
        dim = x.shape[-1]
        wi = self.param("wi", nn.with_logical_partitioning(init, ("embed", "ffn")), (dim, self.hidden))
        wo = self.param("wo", nn.with_logical_partitioning(init, ("ffn", "embed")), (self.hidden, dim))
        return jax.nn.gelu(x @ wi) @ wo


def loss(model, variables, x):
    return jnp.mean((model.apply(variables, x) - x) ** 2)
