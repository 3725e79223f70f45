"""A recurrent field in parts of rows and of time: what a part needs of its neighbour goes round."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get("XLA_FLAGS", "")

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("rows", "steps"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
WIDTH = 256
tx = optax.adam(1e-3)


def from_before(h):
    last = h[:, -1:]
    count = jax.lax.axis_size("steps")
    came = jax.lax.ppermute(last, "steps", [(i, (i + 1) % count) for i in range(count)])
    first = jax.lax.axis_index("steps") == 0
    return jnp.concatenate([jnp.where(first, jnp.zeros_like(came), came), h[:, :-1]], axis=1)


def predicted(weights, x):
    h = jnp.tanh(x @ weights["in"])
    h = h + jnp.tanh(from_before(h) @ weights["back"])
    return h @ weights["out"]


def everywhere(tree, axes):
    return jax.tree.map(lambda one: jax.lax.pmean(one, axes), tree)  # here


@jax.jit
@partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(P(), P(), P("rows", "steps"), P("rows", "steps")),
    out_specs=(P(), P(), P()),
    check_vma=False,
)
def update(weights, moments, x, y):
    def error(weights):
        return jnp.mean((predicted(weights, x) - y) ** 2)

    value, slope = jax.value_and_grad(error)(weights)
    slope = everywhere(slope, "rows")
    change, moments = tx.update(slope, moments)
    return optax.apply_updates(weights, change), moments, everywhere(value, ("rows", "steps"))


def main():
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"in": (32, WIDTH), "back": (WIDTH, WIDTH), "out": (WIDTH, 32)}
    weights = {name: jax.random.normal(key, shapes[name]) * 0.05 for name, key in zip(shapes, keys, strict=True)}
    weights = jax.device_put(weights, NamedSharding(mesh, P()))
    moments = jax.device_put(tx.init(weights), NamedSharding(mesh, P()))
    rng = np.random.default_rng(0)
    parts = NamedSharding(mesh, P("rows", "steps"))
    for _ in range(3):
        x = rng.normal(size=(32, 64, 32)).astype(np.float32)
        x, y = jax.device_put((x, np.roll(x, 1, axis=1)), parts)
        weights, moments, value = update(weights, moments, x, y)
    print(f"error {float(value):.4f}")


if __name__ == "__main__":
    main()
