"""Decoder block weights in the layout (embed, heads, head_dim)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Attention(NamedTuple):
    q_proj: jax.Array  # embed, heads, head_dim
    k_proj: jax.Array
    v_proj: jax.Array
    out_proj: jax.Array  # heads, head_dim, embed


class Block(NamedTuple):
    attn: Attention
    gate: jax.Array
    down: jax.Array


def init_block(key: jax.Array, embed: int, heads: int, head_dim: int, ffn: int) -> Block:
    ks = jax.random.split(key, 6)

    def w(k, *shape):
        return jax.random.normal(k, shape, jnp.float32) * embed**-0.5

    attn = Attention(
        q_proj=w(ks[0], embed, heads, head_dim),
        k_proj=w(ks[1], embed, heads, head_dim),
        v_proj=w(ks[2], embed, heads, head_dim),
        out_proj=w(ks[3], heads, head_dim, embed),
    )
    return Block(attn, w(ks[4], embed, ffn), w(ks[5], ffn, embed))
