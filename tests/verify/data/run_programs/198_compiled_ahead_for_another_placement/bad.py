"""A step that is compiled before the data are there, to read off how much memory it takes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

BATCH, DIM, HIDDEN, LAYERS = 256, 128, 512, 6
mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
WHOLE, ROWS = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
tx = optax.adam(1e-3)


def forward(params, x):
    for up, down in params:
        x = x + jax.nn.gelu(x @ up) @ down
    return x


@partial(jax.jit, donate_argnums=0, out_shardings=((WHOLE, WHOLE), None))
def step(state, batch):  # here
    params, moments = state
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, batch["x"]) - batch["y"]) ** 2))(params)
    updates, moments = tx.update(grads, moments, params)
    return (optax.apply_updates(params, updates), moments), loss


def shapes():
    return {name: jax.ShapeDtypeStruct((BATCH, DIM), np.float32) for name in "xy"}


def main():
    random = np.random.default_rng(0)
    pair = lambda: (random.normal(size=(DIM, HIDDEN)) / 12, random.normal(size=(HIDDEN, DIM)) / 24)
    params = [tuple(one.astype(np.float32) for one in pair()) for _ in range(LAYERS)]
    state = jax.device_put((params, tx.init(params)), WHOLE)
    memory = step.lower(state, shapes()).compile().memory_analysis()
    print(memory.temp_size_in_bytes // 2**20, "MiB")
    for at in range(3):
        batch = {name: random.normal(size=(BATCH, DIM)).astype(np.float32) for name in "xy"}
        state, loss = step(state, jax.device_put(batch, ROWS))
        print(at, float(loss))


main()
