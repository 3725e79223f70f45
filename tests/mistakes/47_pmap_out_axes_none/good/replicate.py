"""Helpers for pmapped programs."""

import jax
import jax.numpy as jnp


def replicate(tree):
    n = jax.local_device_count()
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *jnp.shape(x))), tree)


def shard(x):
    """Give the batch a leading device dimension."""
    return x.reshape(jax.local_device_count(), -1, *x.shape[1:])
