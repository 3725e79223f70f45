"""A mesh whose sizes come from a configuration, in the order they stand there."""
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


@dataclass(frozen=True)
class Parallel:
    model: int = 4
    data: int = 2


@dataclass(frozen=True)
class Net:
    model: int = 256  # the width, and none of an axis
    data: int = 64


def make(parallel):
    sizes = (parallel.model, parallel.data)
    return jax.make_mesh(sizes, ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)  # here


@jax.jit
def step(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    return w - 0.1 * grad, loss


net = Net()
mesh = make(Parallel())
w = jax.device_put(np.ones((net.model, 512), np.float32), NamedSharding(mesh, P(None, "model")))
x = np.random.default_rng(0).normal(size=(net.data, net.model)).astype(np.float32)
for _ in range(2):
    w, loss = step(w, jax.device_put(x, NamedSharding(mesh, P("data"))))
print(float(loss))
