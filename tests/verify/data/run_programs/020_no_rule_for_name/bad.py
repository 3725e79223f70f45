import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

RULES = (("batch", "data"), ("embed", None), ("vocab", "model"), ("mlp", "model"))


def shardings(names):
    spec = nn.logical_to_mesh_axes(names, RULES)  # here SL510
    return NamedSharding(mesh, spec)


rng = np.random.default_rng(0)
head = rng.normal(size=(1024, 4096)).astype(np.float32)
head = jax.device_put(head, shardings(("concat_embed", "vocab")))
x = jax.device_put(np.ones((64, 1024), np.float32), shardings(("batch", "embed")))
step = jax.jit(lambda w, x: jax.nn.softmax(x @ w))
for _ in range(3):
    y = step(head, x)
print(y.sum())
