"""Evaluation of a classifier by pmap."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def apply(params, images):
    hidden = jax.nn.relu(images @ params["w1"])
    return hidden @ params["w2"]


@partial(jax.pmap, axis_name="batch", in_axes=(None, 0))
def eval_step(params, batch):
    logits = apply(params, batch["image"])
    correct = jnp.sum((logits.argmax(-1) == batch["label"]) * batch["mask"])
    return {
        "correct": jax.lax.psum(correct, axis_name="batch"),
        "count": jax.lax.psum(batch["mask"].sum(), axis_name="batch"),
    }


def by_device(batch):
    devices = jax.local_device_count()
    return jax.tree.map(lambda x: x.reshape(devices, -1, *x.shape[1:]), batch)


def evaluate(params, batches):
    """The accuracy over all batches."""
    correct, count = 0.0, 0.0
    for batch in batches:
        metrics = jax.device_get(eval_step(params, by_device(batch)))
        correct += np.sum(metrics["correct"])  # mistake: copies-of-a-sum-added-up
        count += metrics["count"][0]
    return correct / count
