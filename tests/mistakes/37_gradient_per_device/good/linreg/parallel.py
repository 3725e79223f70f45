"""Data-parallel gradients."""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P

from linreg.model import squared_error


def data_parallel_gradient(mesh: Mesh):
    """A function of (params, x, y) that gives the gradient of the mean loss."""

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())
    def gradient(params, x, y):
        def loss_fn(params):
            return jax.lax.pmean(jnp.mean(squared_error(params, x, y)), "data")

        grads = jax.grad(loss_fn)(params)
        return grads

    return gradient
