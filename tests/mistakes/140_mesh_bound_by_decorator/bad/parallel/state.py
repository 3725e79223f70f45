import jax
from jax.sharding import AxisType

_MESH = None


def init_parallel(**axes):
    global _MESH
    _MESH = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    return _MESH


def get_mesh():
    return _MESH
