"""Data parallelism over everything there is."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def data_mesh() -> Mesh:
    return Mesh(jax.devices(), ("data",))


def place(mesh, params, batch):
    params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    return params, jax.device_put(batch, NamedSharding(mesh, PartitionSpec("data")))
