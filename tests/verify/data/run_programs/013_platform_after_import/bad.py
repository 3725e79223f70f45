import os

import jax

os.environ["JAX_PLATFORMS"] = "tpu,cpu"  # here SL801

import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
x = jax.device_put(jnp.ones((512, 512)), NamedSharding(mesh, P("data")))
print(jax.jit(lambda x: x @ x)(x).sum())
