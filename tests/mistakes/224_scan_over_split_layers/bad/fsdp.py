import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,))


def leaf_spec(path, x):
    """Shard the leading dimension over fsdp."""
    return NamedSharding(mesh, P("fsdp"))  # mistake: wrong-spec-dim


def shardings(shapes):
    return jax.tree_util.tree_map_with_path(leaf_spec, shapes)


data = NamedSharding(mesh, P("fsdp"))
