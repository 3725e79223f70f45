"""Decode attention with heads over the model axis."""

import jax
import jax.numpy as jnp


def local_decode(cache, query, key, index):
    """One token of the heads that this device holds.

    Args:
        cache: (batch, length, heads, dim), the keys so far.
        query: (batch, heads, queries, dim).
        key: (batch, 1, heads, dim).
        index: position of the token.
    """
    cache = jax.lax.dynamic_update_slice_in_dim(cache, key, index, axis=1)
    scores = jax.nn.softmax(jnp.einsum("bhqd,blhd->bhql", query, cache), axis=-1)
    out = jnp.einsum("bhql,blhd->bhqd", scores, cache)
    return cache, out
