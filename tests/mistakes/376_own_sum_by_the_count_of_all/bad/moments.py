"""Running mean and spread of what is observed, over all devices."""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    seen: jax.Array
    mean: jax.Array
    squares: jax.Array

    @property
    def spread(self):
        return jnp.sqrt(self.squares / jnp.maximum(self.seen, 1.0)) + 1e-6


def none(size):
    return Moments(jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))


def add(moments, values, axis):
    values = values.reshape(-1, values.shape[-1])
    number = jnp.asarray(values.shape[0], jnp.float32)
    seen = moments.seen + jax.lax.psum(number, axis)
    away = values - moments.mean
    mean = moments.mean + away.sum(axis=0) / seen  # mistake: wrong-reducer
    squares = moments.squares + jax.lax.psum((away * (values - mean)).sum(axis=0), axis)
    return Moments(seen, mean, squares)


def scaled(moments, values):
    return (values - moments.mean) / moments.spread
