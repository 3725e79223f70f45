"""A model trained over all devices, of which every device computes the same sample between two epochs."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
WIDTH = 512


@jax.jit
def step(w, x, y):
    def loss(w):
        return jnp.mean((jnp.tanh(x @ w["first"]) @ w["last"] - y) ** 2)

    return jax.tree.map(lambda old, grad: old - 0.1 * grad, w, jax.grad(loss)(w))


@jax.jit
def draw(w, z):
    return jnp.tanh(jnp.tanh(z @ w["first"]) @ w["last"])


def main():
    rng = np.random.default_rng(0)
    w = {name: rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 20 for name in ("first", "last")}
    w = jax.device_put(w, NamedSharding(mesh, P()))
    for _ in range(2):
        batch = [rng.normal(size=(256, WIDTH)).astype(np.float32) for _ in range(2)]
        w = step(w, *jax.device_put(batch, NamedSharding(mesh, P("data"))))
        z = jax.device_put(rng.normal(size=(64, WIDTH)).astype(np.float32), NamedSharding(mesh, P()))
        print("sample", float(draw(w, z).std()))


main()
