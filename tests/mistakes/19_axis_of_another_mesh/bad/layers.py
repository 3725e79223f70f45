"""Layers with their shardings."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from constants import Axis


def init(key, mesh: Mesh, dim: int, hidden: int):
    column = NamedSharding(mesh, PartitionSpec(Axis.SEQUENCE, Axis.MODEL))  # mistake: axis-name-not-in-mesh
    row = NamedSharding(mesh, PartitionSpec(Axis.MODEL, Axis.SEQUENCE))
    k1, k2 = jax.random.split(key)
    return {
        "up": jax.device_put(jax.random.normal(k1, (dim, hidden)) * 0.1, column),
        "down": jax.device_put(jax.random.normal(k2, (hidden, dim)) * 0.1, row),
    }


def loss(params, x):
    return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"] - x) ** 2)
