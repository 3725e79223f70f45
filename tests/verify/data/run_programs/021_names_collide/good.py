import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

RULES = (("batch", "data"), ("embed", None), ("mlp", "model"))


def sharding(*names):
    return NamedSharding(mesh, nn.logical_to_mesh_axes(names, RULES))


rng = np.random.default_rng(0)
w = jax.device_put(rng.normal(size=(512, 2048)).astype(np.float32), sharding("embed", "mlp"))
x = jax.device_put(np.ones((64, 512), np.float32), sharding("batch", None))
step = jax.jit(lambda w, x: jnp.tanh(x @ w) @ w.T)
for _ in range(3):
    x = step(w, x)
print(x.sum())
