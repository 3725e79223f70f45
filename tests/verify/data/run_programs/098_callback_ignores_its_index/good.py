"""A loader that builds global arrays by callback."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P


class Loader:
    def __init__(self, mesh, batch, width):
        self.sharding = NamedSharding(mesh, P("data"))
        self.batch, self.width = batch, width
        self.rng = np.random.default_rng(0)

    def __iter__(self):
        while True:
            x = self.rng.standard_normal((self.batch, self.width), dtype=np.float32)
            y = np.tanh(x[:, ::-1])
            yield self.put(x), self.put(y)

    def put(self, whole):
        rows = self.batch // self.sharding.mesh.shape["data"]
        assert self.batch % rows == 0
        return jax.make_array_from_callback(whole.shape, self.sharding, lambda index: whole[index])


def init(key, d, f):
    a, b = jax.random.split(key)
    return {"up": jax.random.normal(a, (d, f)) * 0.02, "down": jax.random.normal(b, (f, d)) * 0.02}


def main():
    mesh = jax.make_mesh((8,), ("data",))
    params = jax.device_put(init(jax.random.key(0), 512, 2048), NamedSharding(mesh, P("data")))
    tx = optax.adam(1e-3)
    state = tx.init(params)

    @jax.jit
    def step(params, state, x, y):
        def loss(p):
            return jnp.mean((jax.nn.relu(x @ p["up"]) @ p["down"] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    for i, (x, y) in zip(range(4), Loader(mesh, 128, 512)):
        params, state, value = step(params, state, x, y)
        print(i, float(value))


main()
