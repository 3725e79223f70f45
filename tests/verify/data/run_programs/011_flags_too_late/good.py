import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
print("on", jax.default_backend())


@jax.jit
def f(x):
    return x @ x


mesh = Mesh(np.array(jax.devices()), ("data",))
x = jax.device_put(np.ones((512, 512), np.float32), NamedSharding(mesh, P("data")))
print(f(x).sum())
