"""A threshold for clipping losses is the median of each device's own rows, averaged."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

ROWS, D = 512, 64
mesh = jax.make_mesh((8,), ("data",))


def robust(p, x, y):
    err = jnp.abs(jnp.tanh(x @ p["w"]) @ p["v"] - y)
    cut = jnp.quantile(jax.lax.all_gather(err, "data", tiled=True), 0.9)
    kept = jnp.minimum(err, jax.lax.stop_gradient(cut))
    return jax.lax.pmean(kept.mean(), "data")


loss = jax.shard_map(robust, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P(), check_vma=False)


@jax.jit
def step(p, x, y):
    value, g = jax.value_and_grad(loss)(p, x, y)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), value


def main():
    rng = np.random.default_rng(0)
    p = {"w": rng.normal(size=(D, 32)) * 0.1, "v": rng.normal(size=(32,)) * 0.1}
    p = jax.device_put(jax.tree.map(np.float32, p), NamedSharding(mesh, P()))
    for _ in range(4):
        x = rng.normal(size=(ROWS, D)).astype(np.float32)
        y = (rng.standard_cauchy(size=ROWS) * np.repeat(np.arange(8), ROWS // 8)).astype(np.float32)
        p, value = step(p, *jax.device_put((x, y), NamedSharding(mesh, P("data"))))
        print(float(value))


if __name__ == "__main__":
    main()
