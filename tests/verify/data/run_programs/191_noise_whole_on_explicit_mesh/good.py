"""A denoiser on a mesh whose axes are part of the types."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get("XLA_FLAGS", "")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("batch",), axis_types=(jax.sharding.AxisType.Explicit,))
jax.set_mesh(mesh)
ROWS, WIDTH = 2048, 256


class Schedule:
    def __init__(self, least=0.1):
        self.least = least

    def noisy(self, clean, key):
        time_key, key = jax.random.split(key)
        level = self.least + (1 - self.least) * jax.random.uniform(time_key, (clean.shape[0], 1), out_sharding=P("batch"))
        noise = jax.random.normal(key, clean.shape, out_sharding=P("batch"))
        return jnp.sqrt(1 - level) * clean + jnp.sqrt(level) * noise, noise


schedule = Schedule()


@jax.jit
def train(weights, clean, key):
    def loss(weights):
        mixed, noise = schedule.noisy(clean, key)
        guess = jnp.tanh(mixed @ weights["up"]) @ weights["down"]
        return jnp.mean((guess - noise) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value


def main():
    rng = np.random.default_rng(0)
    weights = {
        "up": jax.device_put(rng.normal(size=(WIDTH, 512)).astype(np.float32) * 0.05, P()),
        "down": jax.device_put(rng.normal(size=(512, WIDTH)).astype(np.float32) * 0.05, P()),
    }
    for step in range(3):
        clean = jax.device_put(rng.normal(size=(ROWS, WIDTH)).astype(np.float32), P("batch"))
        weights, value = train(weights, clean, jax.random.key(step))
    print(f"loss {float(value):.4f}")


if __name__ == "__main__":
    main()
