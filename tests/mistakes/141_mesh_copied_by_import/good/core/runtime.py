"""What the processes of a run share."""
import os

import jax
from jax.sharding import AxisType, Mesh

device_mesh: Mesh | None = None


def boot(data: int = 2, model: int = 4) -> Mesh:
    """Called once by the entry point, after the backend is up."""
    global device_mesh
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    device_mesh = jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    return device_mesh
