"""How weights are split, for whatever mesh there is.

The trainer and those who answer share the table; one of them has no need of some axes.
"""

from jax.sharding import NamedSharding, PartitionSpec

TABLE = {
    "lookup": PartitionSpec("tensor", "zero"),
    "inner": PartitionSpec("zero", "tensor"),
    "outer": PartitionSpec("tensor", "zero"),
}


def fitting(mesh, name):
    known = set(mesh.axis_names)
    return NamedSharding(mesh, PartitionSpec(*(axis if axis in known else None for axis in TABLE[name])))
