import jax
from jax.sharding import AxisType, Mesh


def data_mesh() -> Mesh:
    """One axis over all devices."""
    return jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
