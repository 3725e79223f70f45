"""A policy is fitted to rollouts: time is joined with the environments, which are split, and stands behind them."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

STEPS, ENVS, WIDTH, ACTIONS = 32, 1024, 32, 4
mesh = jax.make_mesh((8,), ("env",), axis_types=(jax.sharding.AxisType.Auto,))


def rows_of(x):
    return x.swapaxes(0, 1).reshape((ENVS * STEPS, *x.shape[2:]))


def loss(params, seen, acted, gains):
    logits = jnp.tanh(rows_of(seen) @ params["in"]) @ params["out"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), rows_of(acted)[:, None], 1)[:, 0]
    return -jnp.mean(chosen * rows_of(gains))


@jax.jit
def update(params, seen, acted, gains):
    grads = jax.grad(loss)(params, seen, acted, gains)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def main():
    rng = np.random.default_rng(0)
    by_env = NamedSharding(mesh, P(None, "env"))
    params = {"in": rng.normal(size=(WIDTH, 64)) * 0.1, "out": rng.normal(size=(64, ACTIONS)) * 0.1}
    params = jax.device_put(jax.tree.map(np.float32, params), NamedSharding(mesh, P()))
    seen = jax.device_put(rng.normal(size=(STEPS, ENVS, WIDTH)).astype(np.float32), by_env)
    acted = jax.device_put(rng.integers(0, ACTIONS, (STEPS, ENVS)), by_env)
    gains = jax.device_put(rng.normal(size=(STEPS, ENVS)).astype(np.float32), by_env)
    for _ in range(3):
        params = update(params, seen, acted, gains)
    print(float(jnp.abs(params["out"]).sum()))


main()
