"""Losses that are the same on every device."""

import jax
import jax.numpy as jnp

DATA_AXIS = "data"


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1)
    return -jnp.mean(picked)


def global_loss(apply_fn, params, batch):
    """Mean over the batch of all devices."""
    local = cross_entropy(apply_fn(params, batch["inputs"]), batch["labels"])
    return jax.lax.pmean(local, axis_name=DATA_AXIS)
