"""ZeRO by hand: the gradients of all are summed on each device, which then takes its own rows of them."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

D, BATCH = 512, 64
mesh = jax.make_mesh((8,), ("dp",))
N = 8


def loss_fn(w, x, y):
    return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)


def step(w, m, x, y):
    """Weights whole on each, moments of 1/N of the rows."""
    loss, grads = jax.value_and_grad(loss_fn)(w, x, y)
    i = jax.lax.axis_index("dp")

    def mine(g):
        g = jax.lax.pmean(g, "dp")  # here
        return jax.lax.dynamic_slice_in_dim(g, i * (D // N), D // N)

    own = jax.tree.map(mine, grads)
    m = {"mean": jax.tree.map(lambda a, g: 0.9 * a + g, m["mean"], own)}
    delta = jax.tree.map(lambda a: jax.lax.all_gather(a, "dp", tiled=True), m["mean"])
    return jax.tree.map(lambda p, d: p - 0.1 * d, w, delta), m, jax.lax.pmean(loss, "dp")


train = jax.jit(
    jax.shard_map(
        step, mesh=mesh, in_specs=(P(), P("dp"), P("dp"), P("dp")), out_specs=(P(), P("dp"), P()), check_vma=False
    )
)


def main():
    rng = np.random.default_rng(0)
    w = {k: rng.normal(size=(D, D)).astype(np.float32) * D**-0.5 for k in "ab"}
    w = jax.device_put(w, NamedSharding(mesh, P()))
    zeros = jax.tree.map(lambda a: np.zeros(a.shape, np.float32), w)
    m = jax.device_put({"mean": zeros}, NamedSharding(mesh, P("dp")))
    for _ in range(4):
        x = jax.device_put(rng.normal(size=(BATCH, D)).astype(np.float32), NamedSharding(mesh, P("dp")))
        w, m, loss = train(w, m, x, x)
        print(float(loss))


if __name__ == "__main__":
    main()
