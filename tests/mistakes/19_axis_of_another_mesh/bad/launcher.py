"""Meshes by the name of the machine."""

import jax
from jax.sharding import AxisType, Mesh

TOPOLOGIES = {"v5e-8": {"data": 2, "tensor": 4}, "v5e-4": {"data": 1, "tensor": 4}}


def mesh_for(machine: str) -> Mesh:
    sizes = TOPOLOGIES[machine]
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))
