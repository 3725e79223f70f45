"""Weights split within a group of devices, and groups that are copies of each other."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get("XLA_FLAGS", "")

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Layout:
    mesh: jax.sharding.Mesh

    @property
    def weights(self):
        return NamedSharding(self.mesh, P(None, "shard"))

    @property
    def batch(self):
        return NamedSharding(self.mesh, P(("data", "shard")))


layout = Layout(jax.make_mesh((2, 4), ("data", "shard"), axis_types=(jax.sharding.AxisType.Auto,) * 2))
tx = optax.adamw(1e-3)


def loss(params, x, y):
    # Stored in pieces, used whole.
    params = jax.lax.with_sharding_constraint(params, NamedSharding(layout.mesh, P()))
    hidden = jnp.tanh(x @ params["up"])
    return jnp.mean((hidden @ params["down"] - y) ** 2)


@jax.jit(donate_argnums=(0, 1))
def step(params, state, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def main():
    rng = np.random.default_rng(0)
    params = {"up": rng.normal(size=(256, 1024)), "down": rng.normal(size=(1024, 256))}
    params = jax.device_put(jax.tree.map(lambda one: (one * 0.05).astype(np.float32), params), layout.weights)
    state = tx.init(params)
    for _ in range(3):
        x = rng.normal(size=(512, 256)).astype(np.float32)
        x, y = jax.device_put((x, -x), layout.batch)
        params, state, value = step(params, state, x, y)
    print(f"loss {float(value):.4f}")


if __name__ == "__main__":
    main()
