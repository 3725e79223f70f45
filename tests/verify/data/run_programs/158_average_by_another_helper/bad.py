"""The shardings of a state are put together of helpers, and that of the averaged weights is the one for numbers."""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


class State(NamedTuple):
    count: Any
    params: Any
    average: Any


def init(key):
    a, b = jax.random.split(key)
    params = {"up": jax.random.normal(a, (256, 1024)) / 16, "down": jax.random.normal(b, (1024, 256)) / 32}
    return State(jnp.zeros((), jnp.int32), params, jax.tree.map(jnp.copy, params))


class Places:
    def __init__(self, mesh):
        self.split, self.whole = NamedSharding(mesh, P("fsdp")), NamedSharding(mesh, P())

    def over(self, tree):
        return jax.tree.map(lambda _: self.split, tree)

    def alike(self, tree):
        return jax.tree.map(lambda _: self.whole, tree)

    def state(self, shapes):
        return State(
            count=self.alike(shapes.count),
            params=self.over(shapes.params),
            average=self.alike(shapes.average),  # here
        )


def step(state, x):
    def loss(p):
        return jnp.mean((jax.nn.silu(x @ p["up"]) @ p["down"] - x) ** 2)

    value, grads = jax.value_and_grad(loss)(state.params)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, grads)
    average = jax.tree.map(lambda a, p: 0.99 * a + 0.01 * p, state.average, params)
    return State(state.count + 1, params, average), value


mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
places = Places(mesh)
shardings = places.state(jax.eval_shape(init, jax.random.key(0)))
state = jax.jit(init, out_shardings=shardings)(jax.random.key(0))
step = jax.jit(step, donate_argnums=0, out_shardings=(shardings, places.whole))
for number in range(2):
    x = np.random.default_rng(number).normal(size=(64, 256)).astype(np.float32)
    state, loss = step(state, jax.device_put(x, places.split))
print(int(state.count), float(loss))
