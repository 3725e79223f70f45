import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


# says: a mesh of 8 x 2 needs 16 devices, and there are 8|SL308
import os

os.environ.setdefault("DATA_PARALLEL", "8")  # ok: os.environ.setdefault("DATA_PARALLEL", "4")


def build(data, model):
    devices = np.array(jax.devices())
    return Mesh(devices.reshape(data, model), ("data", "model"))  # at


build(int(os.environ.pop("DATA_PARALLEL")), 2)
