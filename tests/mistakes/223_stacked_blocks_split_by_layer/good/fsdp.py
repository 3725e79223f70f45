import equinox as eqx
import jax
from jax.sharding import NamedSharding, PartitionSpec as P
from jax.tree_util import GetAttrKey, tree_map_with_path


def leaf_spec(path, x, n):
    stacked = GetAttrKey("blocks") in path
    if x.ndim - stacked < 2:
        return P()
    for axis in range(int(stacked), x.ndim):
        if x.shape[axis] % n == 0:
            return P(*[None] * axis, "fsdp")
    return P()


def shardings(tree, mesh):
    n = mesh.shape["fsdp"]
    arrays = eqx.filter(tree, eqx.is_array)
    return tree_map_with_path(lambda p, x: NamedSharding(mesh, leaf_spec(p, x, n)), arrays)
