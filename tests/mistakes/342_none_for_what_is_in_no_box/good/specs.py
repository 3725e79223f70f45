"""Specs of the variables of a linen model, which holds some of them in boxes."""

import flax.linen as nn
import jax
from jax.sharding import NamedSharding, PartitionSpec


def is_box(x):
    return isinstance(x, nn.Partitioned)


def partition_specs(tree):
    """The spec of each variable."""

    def spec_of(x):
        if isinstance(x, nn.Partitioned):
            return x.get_partition_spec()
        else:
            return PartitionSpec()

    return jax.tree.map(spec_of, tree, is_leaf=is_box)


def place(tree, mesh):
    """The variables without their boxes, over the mesh."""
    specs = partition_specs(tree)
    arrays = jax.tree.map(lambda x: x.unbox() if is_box(x) else x, tree, is_leaf=is_box)
    return jax.tree.map(lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec)), arrays, specs)
