"""Cross-entropy with the vocabulary split over the `tp` axis."""
import jax
import jax.numpy as jnp
from jax import lax


def shard_bounds(axis, local_vocab):
    start = lax.axis_index(axis) * local_vocab
    return start, start + local_vocab


def target_logit(logits, targets, axis):
    lo, hi = shard_bounds(axis, logits.shape[-1])
    mine = (targets >= lo) & (targets < hi)
    local = jnp.where(mine, targets - lo, 0)
    picked = jnp.take_along_axis(logits, local[..., None], axis=-1)[..., 0]
    return lax.psum(jnp.where(mine, picked, 0.0), axis)


def log_normalizer(logits, axis):
    top = lax.stop_gradient(logits.max(axis=-1))
    top = lax.pmax(top, axis)
    total = lax.psum(jnp.exp(logits - top[..., None]).sum(axis=-1), axis)
    return jnp.log(total) + top


def cross_entropy(logits, targets, axis):
    return log_normalizer(logits, axis) - target_logit(logits, targets, axis)
