"""A residual network over two axes: activations are split over both, and the weights over none."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

BATCH, DIM, HIDDEN, LAYERS = 64, 256, 1024, 3
mesh = jax.make_mesh((2, 4), ("rows", "columns"), axis_types=(AxisType.Auto, AxisType.Auto))
SPECS = {"up": P(None, None), "down": P(None, None)}


def init(random):
    shapes = {"up": (DIM, HIDDEN), "down": (HIDDEN, DIM)}
    return [
        {
            name: jax.device_put(random.normal(size=shape).astype(np.float32) / shape[0] ** 0.5, NamedSharding(mesh, SPECS[name]))
            for name, shape in shapes.items()
        }
        for _ in range(LAYERS)
    ]


def lay(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def forward(params, x):
    for layer in params:
        hidden = lay(jax.nn.relu(x @ layer["up"]), "rows", "columns")
        x = lay(x + hidden @ layer["down"], "rows", None)
    return x


@partial(jax.jit, donate_argnums=0)
def step(params, x, y):  # here
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(params)
    new = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return [{name: lay(one, *SPECS[name]) for name, one in layer.items()} for layer in new], loss


def main():
    random = np.random.default_rng(0)
    params = init(random)
    for at in range(3):
        x, y = (random.normal(size=(BATCH, DIM)).astype(np.float32) for _ in range(2))
        x, y = jax.device_put((x, y), NamedSharding(mesh, P("rows")))
        params, loss = step(params, x, y)
        print(at, float(loss))


main()
