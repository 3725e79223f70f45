"""One block of attention over learned tokens."""

import jax
import jax.numpy as jnp
from flax import nnx

from config import Config, Names


def weight(rngs: nnx.Rngs, shape: tuple[int, ...], names: Names) -> nnx.Param:
    init = nnx.with_partitioning(nnx.initializers.normal(0.05), names)
    return nnx.Param(init(rngs.params(), shape))


def vector(rngs: nnx.Rngs, size: int, names: Names) -> nnx.Param:
    init = nnx.with_partitioning(nnx.initializers.zeros_init(), names)
    return nnx.Param(init(rngs.params(), (size,)))


class Model(nnx.Module):
    def __init__(self, config: Config, rngs: nnx.Rngs):
        d, n, h, axes = config.width, config.heads, config.size, config.axes
        self.heads = (n, h)
        self.tokens = weight(rngs, (config.vocab, d), axes.embed)
        self.query = weight(rngs, (d, n, h), axes.into_heads)
        self.value = weight(rngs, (d, n, h), axes.into_heads)
        self.out = weight(rngs, (n, h, d), axes.out_of_heads)
        self.query_bias = vector(rngs, n * h, axes.head_bias)
        self.value_bias = vector(rngs, n * h, axes.head_bias)

    def __call__(self, ids):
        x = self.tokens[...][ids]
        query = jnp.einsum("btd,dnh->btnh", x, self.query[...]) + self.query_bias[...].reshape(self.heads)
        value = jnp.einsum("btd,dnh->btnh", x, self.value[...]) + self.value_bias[...].reshape(self.heads)
        mixed = jax.nn.softmax(query, axis=1) * value
        return jnp.einsum("btnh,nhd->btd", mixed, self.out[...])
