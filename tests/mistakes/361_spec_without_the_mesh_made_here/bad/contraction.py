"""Checks that all devices of a host multiply as they should: one large product, its contraction split."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def operands(size, seed):
    left, right = jax.random.split(jax.random.key(seed))
    return jax.random.normal(left, (size, size)), jax.random.normal(right, (size, size))


def product_over_devices(x, y):
    """The product with its contraction split over all devices, whole on each of them."""
    mesh = Mesh(np.array(jax.devices()), ("contract",))

    @jax.jit
    def multiply(x, y):
        return jax.lax.with_sharding_constraint(x @ y, NamedSharding(mesh, P(None, None)))

    x = jax.device_put(x, NamedSharding(mesh, P(None, "contract")))
    y = jax.device_put(y, P("contract", None))  # mistake: spec-needs-mesh
    return multiply(x, y)


def check(size, seed, tolerance):
    x, y = operands(size, seed)
    start = time.perf_counter()
    spread = product_over_devices(x, y)
    spread.block_until_ready()
    seconds = time.perf_counter() - start
    expected = np.asarray(x) @ np.asarray(y)
    error = float(jnp.max(jnp.abs(np.asarray(spread) - expected)) / np.abs(expected).max())
    return error <= tolerance, error, seconds
