"""Causal ring attention over a sequence axis."""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def block_scores(q, k, q_pos, k_pos):
    s = jnp.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    return jnp.where(q_pos[:, None] >= k_pos[None, :], s, -1e30)


def ring_attention(q, k, v, *, axis):
    n = lax.axis_size(axis)
    me = lax.axis_index(axis)
    block = q.shape[0]
    offsets = jnp.arange(block)
    q_pos = me * block + offsets
    rotate = functools.partial(
        lax.ppermute, axis_name=axis, perm=[(i, (i + 1) % n) for i in range(n)]
    )

    heads, dim = q.shape[1:]
    state = (
        jnp.full((heads, block), -jnp.inf),
        jnp.zeros((heads, block)),
        jnp.zeros((heads, block, dim)),
    )
    state = lax.pcast(state, axis, to="varying")

    def hop(step, carry):
        top, denom, acc, k, v = carry
        k_pos = ((me + step) % n) * block + offsets  # mistake: block-index-with-the-ring
        s = block_scores(q, k, q_pos, k_pos)
        new_top = jnp.maximum(top, s.max(-1))
        p = jnp.exp(s - new_top[..., None])
        fix = jnp.exp(top - new_top)
        denom = denom * fix + p.sum(-1)
        acc = acc * fix[..., None] + jnp.einsum("hqk,khd->hqd", p, v)
        return new_top, denom, acc, rotate(k), rotate(v)

    top, denom, acc, _, _ = lax.fori_loop(0, n, hop, (*state, k, v))
    return jnp.moveaxis(acc / denom[..., None], 0, 1)
