
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

AUTO = jax.sharding.AxisType.Auto
mesh = jax.make_mesh((8,), ("data",), axis_types=(AUTO,))
CODES, WIDTH, DECAY = 64, 64, 0.9


def nearest(book, x):
    return jnp.argmin(jnp.sum(book**2, 1) - 2 * x @ book.T, axis=1)


def update(state, x):
    """Codes move to the mean of what is nearest to them, over the batch of all devices."""
    hot = jax.nn.one_hot(nearest(state["book"], x), CODES)
    sums = lax.psum(hot.T @ x, "data")
    counts = hot.sum(axis=0)  # here
    counts = DECAY * state["counts"] + (1 - DECAY) * counts
    sums = DECAY * state["sums"] + (1 - DECAY) * sums
    return {"counts": counts, "sums": sums, "book": sums / (counts[:, None] + 1e-5)}


step = jax.jit(jax.shard_map(update, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False), donate_argnums=0)


def main():
    book = jax.random.normal(jax.random.key(0), (CODES, WIDTH))
    state = jax.device_put({"counts": jnp.ones(CODES), "sums": book, "book": book + 0}, NamedSharding(mesh, P()))
    rng = np.random.default_rng(0)
    for i in range(3):
        x = jax.device_put(rng.normal(size=(512, WIDTH)).astype(np.float32), NamedSharding(mesh, P("data")))
        state = step(state, x)
        print(i, float(state["counts"].sum()))


if __name__ == "__main__":
    main()
