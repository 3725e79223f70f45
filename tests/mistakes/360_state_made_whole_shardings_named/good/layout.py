"""Meshes, and where the leaves of a train state lie."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def make_mesh(config):
    return Mesh(np.array(jax.devices()).reshape(config.data, -1), ("data", "model"))


def spec_of(path, leaf):
    name = jax.tree_util.keystr(path)
    if leaf.ndim == 2 and "up" in name:
        return P(None, "model")
    if leaf.ndim == 2 and "down" in name:
        return P("model", None)
    return P()


def abstract_state(config, mesh, create):
    """The shapes of a state, with the sharding of each leaf, and the shardings alone."""
    shapes = jax.eval_shape(create, jax.random.key(config.seed))
    shardings = jax.tree.map_with_path(lambda path, leaf: NamedSharding(mesh, spec_of(path, leaf)), shapes)
    structs = jax.tree.map(lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s), shapes, shardings)
    return structs, shardings
