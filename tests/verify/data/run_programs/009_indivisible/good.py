import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


@jax.jit
def forward(w1, w2, x):
    h = jnp.tanh(x @ w1)
    h = jax.lax.with_sharding_constraint(h, NamedSharding(mesh, P("data", "model")))
    return h @ w2


rng = np.random.default_rng(0)
D, F = 512, 2048
w1 = jax.device_put(rng.normal(size=(D, F)).astype(np.float32), NamedSharding(mesh, P()))
w2 = jax.device_put(rng.normal(size=(F, D)).astype(np.float32), NamedSharding(mesh, P()))
x = jax.device_put(rng.normal(size=(64, D)).astype(np.float32), NamedSharding(mesh, P("data")))
for _ in range(3):
    x = forward(w1, w2, x)
print(x.sum())
