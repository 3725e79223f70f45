"""Two-dimensional meshes."""

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh


def make_mesh_2d(model_parallel: int, data_parallel: int) -> Mesh:
    """A mesh with the axes `data` and `model`."""
    size = data_parallel * model_parallel
    if size != jax.device_count():
        raise ValueError(f"a mesh of {size} devices was asked for, {jax.device_count()} are there")
    devices = mesh_utils.create_device_mesh((data_parallel, model_parallel))
    return Mesh(np.asarray(devices), ("data", "model"))
