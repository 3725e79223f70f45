"""Chains of a sampler, started from one point on every device; each walks by the numbers of its own key."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

DEVICES = jax.local_device_count()
CHAINS, DIM, STEPS = 4, 12, 20


def log_density(model, x):
    return -0.5 * jnp.sum((x - model["centre"]) @ model["precision"] * (x - model["centre"]), axis=-1)


def walk(model, start, key):
    def propose(carry, key):
        x, level = carry
        jump, accept = jax.random.split(key)
        y = x + 0.3 * jax.random.normal(jump, x.shape) + model["drift"]
        new = log_density(model, y)
        taken = jnp.log(jax.random.uniform(accept, (CHAINS,))) < new - level
        x, level = jnp.where(taken[:, None], y, x), jnp.where(taken, new, level)
        return (x, level), (x, taken)

    _, (xs, taken) = jax.lax.scan(propose, (start, log_density(model, start)), jax.random.split(key, STEPS))
    return xs[STEPS // 2 :], taken.mean()


def walk_with(model, drift, start, key):
    return walk({**model, "drift": drift}, start, key)


walk_all = jax.pmap(walk_with, in_axes=(None, 0, 0, 0))


def place(tree):
    each = NamedSharding(Mesh(np.array(jax.local_devices()), ("chain",)), P("chain"))
    return jax.tree.map(lambda x: jax.device_put(np.broadcast_to(x, (DEVICES, *np.shape(x))), each), tree)


def main():
    rng = np.random.default_rng(4)
    root = rng.normal(size=(DIM, DIM)).astype(np.float32)
    model = {"centre": rng.normal(size=DIM).astype(np.float32), "precision": root @ root.T / DIM}
    start = place(rng.normal(size=(CHAINS, DIM)).astype(np.float32))
    keys = place(jax.random.PRNGKey(11))  # here SL407
    xs, taken = walk_all(model, place(np.zeros(DIM, np.float32)), start, keys)
    print(np.asarray(xs).reshape(-1, DIM).std(axis=0), np.asarray(taken).mean())


main()
