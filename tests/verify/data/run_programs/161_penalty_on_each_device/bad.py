"""Logistic regression on shards of the rows: the gradients of all shards are summed, that of the penalty too."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

ROWS, FEATURES, DECAY = 1024, 96, 0.05
mesh = jax.make_mesh((8,), ("rows",))


def squared(weights):
    return jnp.sum(weights["w"] ** 2)


def share(weights, x, y):
    """What the rows of one device add to the loss."""
    logits = x @ weights["w"] + weights["b"]
    rows = jnp.sum(jnp.logaddexp(0.0, logits) - y * logits) / ROWS
    return rows + DECAY * squared(weights)  # here


def descend(weights, x, y):
    return jax.lax.psum(jax.grad(share)(weights, x, y), "rows")


gradients = jax.shard_map(
    descend, mesh=mesh, in_specs=(P(), P("rows"), P("rows")), out_specs=P(), check_vma=False
)


@jax.jit
def step(weights, x, y):
    return jax.tree.map(lambda w, g: w - 0.2 * g, weights, gradients(weights, x, y))


def main():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = (x @ rng.normal(size=FEATURES) > 0).astype(np.float32)
    x, y = jax.device_put((x, y), NamedSharding(mesh, P("rows")))
    weights = jax.device_put({"w": jnp.zeros(FEATURES) + 0.1, "b": jnp.zeros(())}, NamedSharding(mesh, P()))
    for _ in range(20):
        weights = step(weights, x, y)
    print(float(squared(weights)))


if __name__ == "__main__":
    main()
