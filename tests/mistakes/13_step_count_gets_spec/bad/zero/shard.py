"""Placement of whole states."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def shard_state(state, mesh: Mesh, axis: str):
    """Split every array of a state along its first dimension."""
    sharded = NamedSharding(mesh, PartitionSpec(axis))
    return jax.tree.map(lambda leaf: jax.device_put(leaf, sharded), state)  # mistake: spec-for-scalar
