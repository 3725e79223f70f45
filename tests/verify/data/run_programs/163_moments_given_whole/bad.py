"""Weights split over the devices, and the moments of their optimizer made whole on each of them."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

WIDTH, DEPTH = 512, 4
mesh = jax.make_mesh((8,), ("fsdp",))
split = NamedSharding(mesh, P("fsdp", None))
everywhere = NamedSharding(mesh, P())
tx = optax.adam(1e-3)


def draw(key):
    keys = jax.random.split(key, DEPTH)
    return [jax.random.normal(one, (WIDTH, WIDTH)) / WIDTH**0.5 for one in keys]


def begin(key):
    weights = jax.jit(draw, out_shardings=split)(key)
    moments = jax.jit(tx.init, out_shardings=everywhere)(weights)  # here
    return weights, moments


def forward(weights, x):
    for one in weights:
        x = jnp.tanh(x @ one)
    return x


@jax.jit
def step(weights, moments, x):
    grads = jax.grad(lambda weights: jnp.mean((forward(weights, x) - x) ** 2))(weights)
    updates, moments = tx.update(grads, moments, weights)
    return optax.apply_updates(weights, updates), moments


def main():
    weights, moments = begin(jax.random.key(0))
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = jax.device_put(rng.normal(size=(64, WIDTH)).astype(np.float32), split)
        weights, moments = step(weights, moments, x)
    print(float(weights[0].sum()))


if __name__ == "__main__":
    main()
