"""Weights are drawn under jit by a model that is shown a batch, split over devices."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

ROWS, DIM, HIDDEN = 512, 256, 1024
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))


def apply(weights, x):
    return jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def draw(key, x):
    up, down = jax.random.split(key)
    width = x.shape[-1]
    weights = {"up": jax.random.normal(up, (width, HIDDEN)) / 16, "down": jax.random.normal(down, (HIDDEN, width)) / 32}
    return weights, apply(weights, x)


def main():
    random = np.random.default_rng(0)
    batch = jax.device_put(random.normal(size=(ROWS, DIM)).astype(np.float32), NamedSharding(mesh, P("data")))

    @jax.jit
    def init(key):
        weights, out = draw(key, batch)  # here SL105
        return jax.tree.map(lambda one: one / jnp.std(out), weights)

    weights = jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))
    print(float(jnp.mean(jax.jit(apply)(weights, batch) ** 2)))


main()
