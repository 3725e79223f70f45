"""Mesh and axis rule plumbing shared by the trainer and the evaluator."""
import contextlib

import flax.linen as nn
import jax
from jax.sharding import AxisType

RULES = (("batch", "data"), ("seq", None), ("embed", None), ("mlp", "model"))


def make_mesh():
    return jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


@contextlib.contextmanager
def sharded(mesh):
    with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
        yield
