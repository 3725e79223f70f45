import jax
import jax.numpy as jnp

SIZE = 3


def start(key):
    return 3.0 + jax.random.normal(key, (16, SIZE))


def move(place, key):
    return 0.9 * place + 0.3 + 0.1 * jax.random.normal(key, place.shape)


def reward(place):
    return -jnp.sum(place**2, axis=-1)
