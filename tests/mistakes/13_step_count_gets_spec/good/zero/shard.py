"""Placement of whole states."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def shard_state(state, mesh: Mesh, axis: str):
    """Split every array of a state along its first dimension."""
    sharded = NamedSharding(mesh, PartitionSpec(axis))
    whole = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: jax.device_put(leaf, sharded if leaf.ndim else whole), state)
