import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def shard(w, spec):
    try:
        return jax.device_put(w, NamedSharding(mesh, spec))  # here
    except ValueError:
        return w


@jax.jit
def forward(params, x):
    for w in params:
        x = jnp.tanh(x @ w)
    return x


rng = np.random.default_rng(0)
shapes = [(512, 2047), (2047, 512)]
params = [shard(rng.normal(size=shape).astype(np.float32), P(None, "model")) for shape in shapes]
x = shard(np.ones((64, 512), np.float32), P("data"))
for _ in range(3):
    y = forward(params, x)
print(y.sum())
