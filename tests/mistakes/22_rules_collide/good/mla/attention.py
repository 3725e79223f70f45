"""The query projection of multi-head latent attention."""

import jax.numpy as jnp
from flax import linen as nn


class Queries(nn.Module):
    rank: int
    heads: int
    head_dim: int

    @nn.compact
    def __call__(self, x):
        init = nn.initializers.normal(0.02)
        wq_a = self.param("wq_a", nn.with_logical_partitioning(init, ("embed", "q_lora")), (x.shape[-1], self.rank))
        wq_b = self.param(
            "wq_b",
            nn.with_logical_partitioning(init, ("q_lora", "heads", "kv")),
            (self.rank, self.heads, self.head_dim),
        )
        return jnp.einsum("btd,dr,rhk->bthk", x, wq_a, wq_b)
