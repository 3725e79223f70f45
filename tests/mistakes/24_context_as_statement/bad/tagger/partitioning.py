"""Everything about the mesh is here."""

import contextlib
from collections.abc import Iterator

import jax
from flax import linen as nn
from jax.sharding import AxisType, Mesh

RULES = (("batch", "data"), ("length", None), ("hidden", "model"))


def create_mesh(data: int, model: int) -> Mesh:
    return jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


@contextlib.contextmanager
def partitioned(mesh: Mesh, rules=RULES) -> Iterator[Mesh]:
    """Enter the mesh and the logical rules together."""
    with jax.set_mesh(mesh), nn.logical_axis_rules(rules):
        yield mesh
