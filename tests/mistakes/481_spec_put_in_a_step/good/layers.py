"""Layers of a small classifier, and where their activations are to be."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

HIDDEN = P("data", "model")
LOGITS = P("data", None)


def spread(x, spec):
    """An activation, split as the spec says."""
    return jax.lax.with_sharding_constraint(x, spec)


def init(key, features, width, classes):
    one, two = jax.random.split(key)
    return {
        "up": 0.1 * jax.random.normal(one, (features, width)),
        "down": 0.1 * jax.random.normal(two, (width, classes)),
    }


def apply(params, x):
    hidden = spread(jnp.maximum(x @ params["up"], 0), HIDDEN)
    return spread(hidden @ params["down"], LOGITS), hidden
