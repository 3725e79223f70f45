"""Mesh helpers shared by the training scripts."""
import math

import jax
import numpy as np
from jax.sharding import Mesh

DATA, MODEL = "data", "model"


def grid(model_parallel=None):
    devices = np.array(jax.devices())
    model = model_parallel or 2 ** (int(math.log2(len(devices))) // 2)
    return Mesh(devices.reshape(-1, model), (DATA, MODEL))
