import jax.numpy as jnp
import flax.linen as nn


class Attn(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, x):
        q, k, v = (nn.Dense(self.dim, name=n)(x) for n in "qkv")
        w = nn.softmax(jnp.einsum("btd,bsd->bts", q, k) / self.dim**0.5)
        return nn.Dense(self.dim, name="out")(jnp.einsum("bts,bsd->btd", w, v))


class Mlp(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.dim, name="down")(nn.relu(nn.Dense(4 * self.dim, name="up")(x)))


class Block(nn.Module):
    dim: int = 32

    @nn.compact
    def __call__(self, x):
        x = x + Attn(self.dim, name="attn")(nn.LayerNorm()(x))
        return x + Mlp(self.dim, name="mlp")(nn.LayerNorm()(x))
