import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["XLA_FLAGS"] += " --xla_cpu_enable_fast_math=false"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
x = jax.device_put(np.ones((512, 512), np.float32), NamedSharding(mesh, P("data")))
print(jax.jit(lambda x: x @ x)(x).sum())
