import equinox as eqx
import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def spec_of(x):
    if x.ndim == 2 and x.shape[0] % 4 == 0:
        return P("model", None)
    return P()


def place(tree, mesh):
    arrays, rest = eqx.partition(tree, eqx.is_array)
    arrays = jax.tree.map(lambda x: jax.device_put(x, NamedSharding(mesh, spec_of(x))), arrays)
    return eqx.combine(arrays, rest)
