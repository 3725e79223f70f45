"""Weights that lie split, and a penalty on how far they went from where they began."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get("XLA_FLAGS", "")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
SPLIT = NamedSharding(mesh, P("fsdp"))
tx = optax.sgd(0.05)


class Anchored:
    def __init__(self, anchor):
        self.anchor = anchor

    def distance(self, params):
        rows = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(params)])  # here
        base = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(self.anchor)])  # here
        return jnp.sqrt(jnp.sum((rows - base) ** 2) + 1e-6)


def forward(params, x):
    for name in sorted(params):
        x = x + jnp.tanh(x @ params[name])
    return x


@jax.jit(donate_argnums=(0, 2))
def step(params, anchor, state, x, y):
    def loss(params):
        return jnp.mean((forward(params, x) - y) ** 2) + 0.01 * Anchored(anchor).distance(params)

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def main():
    keys = jax.random.split(jax.random.key(0), 4)
    make = jax.jit(lambda key: jax.random.normal(key, (1024, 1024)) * 0.02, out_shardings=SPLIT)
    params = {f"layer{at}": make(key) for at, key in enumerate(keys)}
    anchor = jax.tree.map(jnp.copy, params)
    state = tx.init(params)
    rng = np.random.default_rng(0)
    for _ in range(2):
        x = jax.device_put(rng.normal(size=(64, 1024)).astype(np.float32), SPLIT)
        params, state, value = step(params, anchor, state, x, x)
    print(f"loss {float(value):.4f}")


if __name__ == "__main__":
    main()
