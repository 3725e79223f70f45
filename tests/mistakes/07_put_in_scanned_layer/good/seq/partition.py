"""Names and helpers of the device mesh."""

import functools

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BATCH = "batch"


@functools.lru_cache(maxsize=1)
def get_mesh() -> Mesh:
    return Mesh(jax.devices(), (BATCH,))


def batch_sharding() -> NamedSharding:
    return NamedSharding(get_mesh(), PartitionSpec(BATCH))


def shard_batch(x):
    """Split the leading dimension over the batch axis."""
    return jax.lax.with_sharding_constraint(x, batch_sharding())
