"""A small residual MLP regressor with named weight dimensions."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx


@dataclasses.dataclass(frozen=True)
class NetConfig:
    features: int = 256
    hidden: int = 1024
    depth: int = 3


class Block(nnx.Module):
    def __init__(self, cfg: NetConfig, *, rngs: nnx.Rngs):
        init = nnx.initializers.lecun_normal()
        self.norm = nnx.LayerNorm(cfg.features, rngs=rngs)
        self.up = nnx.Linear(cfg.features, cfg.hidden, kernel_init=init, rngs=rngs)
        self.down = nnx.Linear(cfg.hidden, cfg.features, kernel_init=init, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Regressor(nnx.Module):
    def __init__(self, cfg: NetConfig, *, rngs: nnx.Rngs):
        self.blocks = nnx.List([Block(cfg, rngs=rngs) for _ in range(cfg.depth)])
        self.head = nnx.Linear(cfg.features, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return jnp.squeeze(self.head(x), -1)
