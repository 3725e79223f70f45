"""Shardings are worked out for a table of memory and for the weights."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))


def make_weights(key):
    keys = jax.random.split(key, 3)
    return {
        "inner": [jax.random.normal(one, (512, 512)) * 0.04 for one in keys[:2]],
        "last": jax.random.normal(keys[2], (512, 64)) * 0.04,
    }


def plan(shapes):
    return jax.tree.map(lambda one: NamedSharding(mesh, P("fsdp")), shapes)


def megabytes(shapes, shardings):
    parts = jax.tree.map(lambda one, lies: np.prod(lies.shard_shape(one.shape)) * 4, shapes, shardings)
    return sum(jax.tree.leaves(parts)) / 2**20


@jax.jit
def step(weights, x, y):
    def loss_fn(weights):
        h = x
        for one in weights["inner"]:
            h = h + jnp.tanh(h @ one)
        return jnp.mean((h @ weights["last"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), loss


key = jax.device_put(jax.random.key(0), NamedSharding(mesh, P()))
shapes = jax.eval_shape(make_weights, key)
shardings = plan(shapes)
print(f"{megabytes(shapes, shardings):.2f} MiB of weights a device")
weights = jax.jit(make_weights, out_shardings=shardings)(key)
for seed in range(2):
    rng = np.random.default_rng(seed)
    batch = rng.normal(size=(64, 512)).astype(np.float32), rng.normal(size=(64, 64)).astype(np.float32)
    weights, loss = step(weights, *jax.device_put(batch, NamedSharding(mesh, P("fsdp"))))
print(float(loss))
