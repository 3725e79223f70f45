"""Linen text encoder whose kernels carry mesh axis names."""

import flax.linen as nn
import jax.numpy as jnp


def dense(features: int, names: tuple, name: str) -> nn.Dense:
    init = nn.with_partitioning(nn.initializers.xavier_uniform(), names)
    return nn.Dense(features, kernel_init=init, use_bias=False, name=name)


class EncoderLayer(nn.Module):
    width: int
    heads: int

    @nn.compact
    def __call__(self, x):
        b, t, _ = x.shape
        h = nn.LayerNorm()(x)
        qkv = dense(3 * self.width, ("fsdp", "tp"), "qkv")(h)
        q, k, v = jnp.split(qkv.reshape(b, t, self.heads, -1), 3, axis=-1)
        w = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1]))
        o = jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, t, self.width)
        x = x + dense(self.width, ("tp", "fsdp"), "proj")(o)
        h = dense(4 * self.width, ("fsdp", "tp"), "fc1")(nn.LayerNorm()(x))
        return x + dense(self.width, ("tp", "fsdp"), "fc2")(nn.gelu(h))


class Encoder(nn.Module):
    vocab: int
    width: int = 128
    heads: int = 4
    layers: int = 2

    @nn.compact
    def __call__(self, ids):
        table = nn.with_partitioning(nn.initializers.normal(0.02), ("tp", "fsdp"))
        x = nn.Embed(self.vocab, self.width, embedding_init=table, name="tok")(ids)
        for i in range(self.layers):
            x = EncoderLayer(self.width, self.heads, name=f"layer_{i}")(x)
        return dense(self.vocab, ("fsdp", "tp"), "logits")(x)
