import equinox as eqx
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

from spec_table import SPECS


def sharding_of(mesh, name):
    spec = SPECS.get(name)
    if not isinstance(spec, P):
        spec = P()  # scalars, counters and everything unlisted
    return NamedSharding(mesh, spec)


def place(module, mesh):
    def leaf(path, x):
        if not eqx.is_array(x):
            return x
        return jax.device_put(x, sharding_of(mesh, path[-1].name))

    return jax.tree_util.tree_map_with_path(leaf, module)
