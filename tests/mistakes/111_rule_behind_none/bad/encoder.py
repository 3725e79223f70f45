import flax.linen as nn
import jax.numpy as jnp

part = nn.with_logical_partitioning


class MLP(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        init = nn.initializers.lecun_normal()
        h = nn.Dense(self.hidden, use_bias=False, kernel_init=part(init, ("embed", "mlp")), name="wi")(x)
        h = nn.gelu(h)
        return nn.Dense(d, use_bias=False, kernel_init=part(init, ("mlp", "embed")), name="wo")(h)


class Layer(nn.Module):
    heads: int
    hidden: int

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        init = nn.initializers.lecun_normal()
        y = nn.LayerNorm(use_bias=False, use_scale=False)(x)
        qkv = nn.DenseGeneral(
            (3, self.heads, d // self.heads),
            use_bias=False,
            kernel_init=part(init, ("embed", "qkv", "heads", "kv")),
            name="qkv",
        )(y)
        q, k, v = jnp.moveaxis(qkv, 2, 0)
        att = nn.dot_product_attention(q, k, v)
        x = x + nn.DenseGeneral(
            d, axis=(-2, -1), use_bias=False, kernel_init=part(init, ("heads", "kv", "embed")), name="out"
        )(att)
        return x + MLP(self.hidden)(nn.LayerNorm(use_bias=False, use_scale=False)(x))


class Encoder(nn.Module):
    layers: int = 2
    heads: int = 4
    hidden: int = 128
    classes: int = 8

    @nn.compact
    def __call__(self, x):
        for _ in range(self.layers):
            x = Layer(self.heads, self.hidden)(x)
        x = x.mean(1)
        head = part(nn.initializers.zeros, ("embed", "classes"))
        return nn.Dense(self.classes, use_bias=False, kernel_init=head, name="head")(x)
