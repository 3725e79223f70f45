"""The sizes of the mesh are numbers of another machine's."""
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

SIZES = {"data": 4, "model": 2}
mesh = jax.make_mesh(tuple(SIZES.values()), tuple(SIZES), axis_types=(jax.sharding.AxisType.Auto,) * 2)
# A smaller one beside it, of a part of the devices by intent.
pair = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2], axis_types=(jax.sharding.AxisType.Auto,))


@jax.jit
def step(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    return w - 0.1 * grad, loss


w = jax.device_put(np.ones((256, 512), np.float32), NamedSharding(mesh, P(None, "model")))
x = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
for _ in range(2):
    w, loss = step(w, jax.device_put(x, NamedSharding(mesh, P("data"))))
small = jax.device_put(np.ones((64, 8), np.float32), NamedSharding(pair, P("data")))
print(float(loss), float(small.sum()))
