import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("replica", "data"))


def model(p, x):
    h = jax.nn.gelu(x @ p["in"])
    return h @ p["out"]


def local_loss(p, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(p, x), y).mean()


@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(("replica", "data")), P(("replica", "data"))), out_specs=(P(), P()), check_vma=False)
def grad_step(p, x, y):
    loss, g = jax.value_and_grad(local_loss)(p, x, y)
    g = jax.lax.pmean(g, ("replica", "data"))
    loss = jax.lax.pmean(loss, ("replica", "data"))
    return jax.tree.map(lambda w, d: w - 0.1 * d, p, g), loss


def main():
    k = jax.random.split(jax.random.key(0), 2)
    p = {"in": jax.random.normal(k[0], (256, 1024)) * 0.05, "out": jax.random.normal(k[1], (1024, 64)) * 0.03}
    p = jax.device_put(p, NamedSharding(mesh, P()))
    rows = NamedSharding(mesh, P(("replica", "data")))
    rng = np.random.default_rng(0)
    for i in range(4):
        x = jax.device_put(rng.normal(size=(256, 256)).astype(np.float32), rows)
        y = jax.device_put(rng.integers(0, 64, 256), rows)
        p, loss = grad_step(p, x, y)
        print(i, float(loss))

if __name__ == "__main__":
    main()
