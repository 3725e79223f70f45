"""How the devices are arranged."""

import jax
import numpy as np
from jax.sharding import Mesh

DATA, MODEL = "data", "model"


def model_mesh(model_parallel: int) -> Mesh:
    """Neighbouring devices hold the shards of one replica."""
    devices = np.asarray(jax.devices()).reshape(-1, model_parallel)
    return Mesh(devices, (DATA, MODEL))
