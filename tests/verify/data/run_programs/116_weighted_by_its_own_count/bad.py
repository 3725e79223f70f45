import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("dp",), axis_types=(jax.sharding.AxisType.Auto,))


def scores(p, x):
    return jax.nn.gelu(x @ p["w"]) @ p["v"]


def masked(p, x, y, weight):
    per = optax.softmax_cross_entropy_with_integer_labels(scores(p, x), y)
    return jnp.sum(per * weight), jnp.sum(weight)


@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("dp"), P("dp"), P("dp")), out_specs=(P(), P()), check_vma=False)
def step(p, x, y, weight):
    count = masked(p, x, y, weight)[1]

    def loss_fn(p):
        total, _ = masked(p, x, y, weight)
        return total / count  # here SL403

    loss, g = jax.value_and_grad(loss_fn)(p)
    g = jax.lax.psum(g, "dp")
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), jax.lax.psum(loss, "dp")


def main():
    ks = jax.random.split(jax.random.key(0), 2)
    p = {"w": jax.random.normal(ks[0], (128, 512)) * 0.05, "v": jax.random.normal(ks[1], (512, 32)) * 0.05}
    p = jax.device_put(p, NamedSharding(mesh, P()))
    rows = NamedSharding(mesh, P("dp"))
    rng = np.random.default_rng(0)
    for i in range(3):
        x, y = rng.normal(size=(128, 128)).astype(np.float32), rng.integers(0, 32, 128)
        weight = (rng.uniform(size=128) < 0.6).astype(np.float32)
        p, loss = step(p, *jax.device_put((x, y, weight), rows))
        print(i, float(loss))

if __name__ == "__main__":
    main()
