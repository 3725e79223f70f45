import jax
import jax.numpy as jnp
from jax import lax

from ringattn.config import AttnConfig


def _merge(acc, norm, top, scores, values):
    new_top = jnp.maximum(top, scores.max(-1))
    scale = jnp.exp(top - new_top)
    p = jnp.exp(scores - new_top[..., None])
    acc = acc * scale[..., None] + jnp.einsum("hqk,khd->hqd", p, values)
    return acc, norm * scale + p.sum(-1), new_top


class RingAttention:
    """Full attention over a sequence that is split over cfg.seq_axis."""

    def __init__(self, cfg: AttnConfig):
        self.cfg = cfg

    def neighbours(self, size):
        return [(i, (i + 1) % size) for i in range(size)]

    def __call__(self, q, k, v):
        axis = self.cfg.seq_axis
        size = lax.axis_size(axis)
        perm = self.neighbours(size)
        q = q * self.cfg.head_dim**-0.5
        h, s = q.shape[1], q.shape[0]
        acc = lax.pcast(jnp.zeros((h, s, self.cfg.head_dim)), axis, to="varying")
        norm = lax.pcast(jnp.zeros((h, s)), axis, to="varying")
        top = lax.pcast(jnp.full((h, s), -1e30), axis, to="varying")

        def hop(carry, _):
            acc, norm, top, k, v = carry
            scores = jnp.einsum("qhd,khd->hqk", q, k)
            acc, norm, top = _merge(acc, norm, top, scores, v)
            k, v = (lax.ppermute(t, axis, perm) for t in (k, v))
            return (acc, norm, top, k, v), None

        (acc, norm, *_), _ = lax.scan(hop, (acc, norm, top, k, v), None, length=size)
        return jnp.einsum("hqd->qhd", acc / norm[..., None])
