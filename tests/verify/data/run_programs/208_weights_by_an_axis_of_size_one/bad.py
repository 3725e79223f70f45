"""Several tasks: their heads are split over `tasks`, and the tower they share over `shard`, of which one group is left."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

SETTINGS = {"shard": 1, "tasks": 8}
ROWS = ("shard", "tasks")


class Tasks(eqx.Module):
    heads: jax.Array
    tower: list[jax.Array]

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.heads = jax.random.normal(keys[0], (8, 512, 64)) * 0.1
        sizes = (256, 512, 512, 512)
        self.tower = [
            jax.random.normal(key, pair) * pair[0] ** -0.5
            for key, pair in zip(keys[1:], zip(sizes, sizes[1:], strict=False), strict=True)
        ]

    def __call__(self, x):
        for weight in self.tower:
            x = jax.nn.relu(x @ weight)
        return jnp.einsum("bd,hdk->bhk", x, self.heads).mean(-1)


def plan(mesh, model, weights):
    return jax.tree.map(lambda leaf: NamedSharding(mesh, P("tasks") if leaf.ndim == 3 else P(weights)), model)


def train(settings, weights):
    mesh = jax.make_mesh(tuple(settings.values()), tuple(settings), (jax.sharding.AxisType.Auto,) * 2)  # here
    model = Tasks(jax.random.key(0))
    model = jax.device_put(model, plan(mesh, model, weights))
    optimizer = optax.sgd(1e-2, momentum=0.9)
    state = optimizer.init(model)

    @eqx.filter_jit(donate="all")
    def step(model, state, x, y):
        loss, grads = eqx.filter_value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(model, updates), state, loss

    rng = np.random.default_rng(0)
    for _ in range(2):
        batch = rng.normal(size=(64, 256)).astype(np.float32), rng.normal(size=(64, 8)).astype(np.float32)
        model, state, loss = step(model, state, *jax.device_put(batch, NamedSharding(mesh, P(ROWS))))
    print(float(loss))


train(SETTINGS, "shard")
