"""Fully sharded placement: each weight is split along its largest dimension."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

AXIS = "fsdp"


def make_mesh() -> Mesh:
    return Mesh(jax.devices(), (AXIS,))


def fsdp_spec(shape: tuple[int, ...], size: int) -> P:
    if not shape or max(shape) % size:
        return P()
    largest = shape.index(max(shape))
    return P(*(AXIS if i == largest else None for i in range(len(shape))))


def fsdp_shardings(tree, mesh: Mesh):
    return jax.tree.map(lambda x: NamedSharding(mesh, fsdp_spec(x.shape, mesh.size)), tree)
