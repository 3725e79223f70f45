import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def loss_fn(params, x):
    return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"] - x) ** 2)


@functools.partial(jax.jit, donate_argnums=0)
def step(params, x):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss_fn)(params, x))


@jax.jit
def loss_of(params, x):  # here
    return loss_fn(params, x)


devices = np.array(jax.devices())
mesh = Mesh(devices, ("data",))
rng = np.random.default_rng(0)
host = {
    "up": rng.normal(size=(512, 2048)).astype(np.float32) * 0.02,
    "down": rng.normal(size=(2048, 512)).astype(np.float32) * 0.02,
}
x = rng.normal(size=(64, 512)).astype(np.float32)
params = jax.device_put(host, NamedSharding(mesh, P("data")))
params = step(params, jax.device_put(x, NamedSharding(mesh, P("data"))))

# The same loss with plain data parallelism on all devices.
copies = jax.device_put(host, NamedSharding(mesh, P()))
print(float(loss_of(copies, jax.device_put(x, NamedSharding(mesh, P("data"))))))
