"""Data comes on one mesh, weights on another whose devices stand in another order: all is exchanged at each step."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

D, B = 256, 512


def loader_mesh():
    return Mesh(np.array(jax.devices()), ("data",))


train_mesh = Mesh(np.array(jax.devices()), ("data",))


class Loader:
    def __init__(self, mesh):
        self.sharding = NamedSharding(mesh, P("data"))
        self.rng = np.random.default_rng(0)

    def __next__(self):
        return jax.device_put(self.rng.normal(size=(B, D)).astype(np.float32), self.sharding)


def loss_fn(p, x):
    return jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"] - x) ** 2)


def train_step(p, x):
    loss, g = jax.value_and_grad(loss_fn)(p, x)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss


step = jax.jit(train_step)


def main():
    rng = np.random.default_rng(1)
    p = {k: rng.normal(size=(D, D)).astype(np.float32) * D**-0.5 for k in "ab"}
    p = jax.device_put(p, NamedSharding(train_mesh, P()))
    loader = Loader(loader_mesh())
    into = NamedSharding(train_mesh, P("data"))
    for _ in range(4):
        p, loss = step(p, jax.device_put(next(loader), into))
        print(float(loss))


if __name__ == "__main__":
    main()
