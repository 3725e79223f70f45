import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as PS

AXES = ("dp", "fsdp", "tp")


def get_mesh(dims: str):
    """'2,4,1' -> a mesh of dp, fsdp, tp."""
    shape = tuple(int(d) for d in dims.split(","))
    return jax.make_mesh(shape, AXES, axis_types=(AxisType.Auto,) * 3)


def named(mesh, spec):
    return NamedSharding(mesh, spec)
