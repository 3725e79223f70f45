"""How rows get to the devices."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MESH = Mesh(np.array(jax.devices()), ("rows",))


def to_devices(example):
    by_row = NamedSharding(MESH, PartitionSpec("rows"))
    out = {}
    for name, array in example.items():
        out[name] = jax.device_put(array, by_row)
    return out


def everywhere(tree):
    """Weights are small here: whole on every device."""
    return jax.device_put(tree, NamedSharding(MESH, PartitionSpec()))
