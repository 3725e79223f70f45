"""A sensor model whose inputs are scaled by running statistics, which each device keeps of the rows that it sees."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("part",), axis_types=(AxisType.Auto,))
EACH = P("part")


def scaled(running, x):
    return (x - running["centre"]) / jnp.sqrt(running["spread"] + 1e-4)  # here SL402


STATE = {"weights": P(), "running": EACH}


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(STATE, EACH, EACH), out_specs=STATE, check_vma=False)
def fit(state, x, y):
    running = jax.tree.map(lambda one: one[0], state["running"])
    centre = x.mean(axis=0)
    fresh = {"centre": centre, "spread": ((x - centre) ** 2).mean(axis=0)}
    running = jax.tree.map(lambda old, new: 0.7 * old + 0.3 * new, running, fresh)
    grads = jax.grad(lambda w: jnp.mean((scaled(running, x) @ w - y) ** 2))(state["weights"])
    weights = state["weights"] - 0.1 * jax.lax.pmean(grads, "part")
    return {"weights": weights, "running": jax.tree.map(lambda one: one[None], running)}


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(STATE, EACH, EACH), out_specs=P())
def error(state, x, y):
    running = jax.tree.map(lambda one: one[0], state["running"])
    return jax.lax.pmean(jnp.mean((scaled(running, x) @ state["weights"] - y) ** 2), "part")


def main():
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(10, 3)).astype(np.float32)
    place = partial(jax.device_put, device=NamedSharding(mesh, EACH))
    running = {"centre": np.zeros((mesh.size, 10), np.float32), "spread": np.ones((mesh.size, 10), np.float32)}
    state = {"weights": jax.device_put(weights * 0.1, NamedSharding(mesh, P())), "running": place(running)}
    x = rng.normal(size=(64, 10)).astype(np.float32) * rng.uniform(0.5, 3, (64, 1)).astype(np.float32)
    x, y = place((x, x @ weights))
    print("before", float(error(state, x, y)))
    for _ in range(4):
        state = fit(state, x, y)
    print("after", float(error(state, x, y)))


main()
