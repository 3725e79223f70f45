"""A small network with dropout."""

import jax
import jax.numpy as jnp


def init(key, width=16):
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (width, width)) * 0.1,
        "w2": jax.random.normal(second, (width, 1)) * 0.1,
    }


def apply(params, x, key, rate=0.5):
    hidden = jax.nn.relu(x @ params["w1"])
    mask = jax.random.bernoulli(key, 1 - rate, hidden.shape)
    return jnp.where(mask, hidden / (1 - rate), 0) @ params["w2"], mask


def loss(params, x, key):
    predicted, mask = apply(params, x, key)
    return jnp.mean((predicted[:, 0] - x.sum(-1)) ** 2), mask
