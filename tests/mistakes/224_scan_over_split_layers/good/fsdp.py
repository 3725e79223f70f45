import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,))


def leaf_spec(path, x):
    """Shard the leading dimension over fsdp, past the layer dimension of stacked leaves."""
    stacked = path[0].key == "layers"
    return NamedSharding(mesh, P(None, "fsdp") if stacked else P("fsdp"))


def shardings(shapes):
    return jax.tree_util.tree_map_with_path(leaf_spec, shapes)


data = NamedSharding(mesh, P("fsdp"))
