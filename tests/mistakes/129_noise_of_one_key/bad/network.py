"""Denoiser network in Flax."""
import flax.linen as nn
import jax.numpy as jnp


class Denoiser(nn.Module):
    width: int
    max_steps: int

    @nn.compact
    def __call__(self, x, t):
        emb = nn.Embed(self.max_steps, self.width)(t)
        h = nn.silu(nn.Dense(self.width)(x) + emb)
        h = nn.silu(nn.Dense(self.width)(h))
        return nn.Dense(x.shape[-1])(jnp.concatenate([h, x], axis=-1))
