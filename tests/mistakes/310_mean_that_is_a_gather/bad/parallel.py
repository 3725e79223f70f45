"""Collectives of the sampler, each with a pmap of its own, for what is kept with a row for each device."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@partial(jax.pmap, axis_name="gather_axis")
def pmap_all_gather(x):
    """Every device's rows, on every device."""
    return lax.all_gather(x, "gather_axis")


@partial(jax.pmap, axis_name="max_axis")
def pmap_pmax(x):
    """The largest over the devices."""
    return lax.pmax(x, "max_axis")


@partial(jax.pmap, axis_name="mean_axis")
def pmap_pmean(x):
    """The mean over the devices."""
    return lax.all_gather(x, "mean_axis")  # mistake: wrong-collective


def split_over_devices(x):
    """`[n, ...]` to `[devices, n / devices, ...]`."""
    devices = jax.local_device_count()
    return jnp.reshape(x, (devices, x.shape[0] // devices, *x.shape[1:]))


def on_the_host(x):
    """The first device's copy, as numpy arrays."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], x)
