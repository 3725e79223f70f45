"""Linear regression, data-parallel by jit and NamedSharding."""
import jax
import jax.numpy as jnp
import numpy as np
from flax import jax_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
replicated = NamedSharding(mesh, P())
by_row = NamedSharding(mesh, P("data"))


def init(features=8):
    return {"scale": jnp.ones((1,)), "bias": jnp.zeros((1,))}


def predict(params, x):
    return x.sum(-1) * params["scale"] + params["bias"]


def loss(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


@jax.jit
def train_step(params, momentum, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum)
    return params, momentum, value


def batches(count, size=64, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.normal(size=(size, 8)).astype(np.float32)
        yield x, (2.0 * x.sum(-1) + 1.0).astype(np.float32)


class Trainer:
    def __init__(self):
        params = init()
        self.params = jax_utils.replicate(params)  # mistake: pmap-helper-for-jit
        self.momentum = jax.tree.map(jnp.zeros_like, self.params)

    def fit(self, steps):
        for x, y in batches(steps):
            x, y = jax.device_put((x, y), by_row)
            self.params, self.momentum, value = train_step(self.params, self.momentum, x, y)
        return value


def expected():
    return np.zeros((1,), np.float32)


def main():
    trainer = Trainer()
    value = trainer.fit(3)
    bias = trainer.params["bias"]
    print("bias", bias.shape, float(value) >= 0)
    return bias * 0


if __name__ == "__main__":
    main()
