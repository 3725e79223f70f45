"""A step by a partial, whose out_shardings are given: jax itself drops the donation of what no result can take."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))


def update(rate, weights, x):
    def loss(w):
        return jnp.mean((jnp.tanh(x @ w["up"]) @ w["down"] - x) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - rate * g, weights, grads), value


step = jax.jit(
    functools.partial(update, 0.1),
    out_shardings=whole,
    donate_argnums=1,  # here SL223
)
weights = jax.device_put(
    {"up": np.ones((256, 512), np.float32) / 256, "down": np.ones((512, 256), np.float32) / 512}, whole
)
for number in range(2):
    x = np.random.default_rng(number).normal(size=(64, 256)).astype(np.float32)
    weights, loss = step(weights, jax.device_put(x, rows))
print(float(loss))
