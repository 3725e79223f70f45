"""The policy: a small network, its loss and its batches."""

import jax
import jax.numpy as jnp


def init(key, width=16, actions=4):
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (width, width)) * 0.1,
        "w2": jax.random.normal(second, (width, actions)) * 0.1,
    }


def loss(params, states, returns):
    hidden = jax.nn.tanh(states @ params["w1"])
    return jnp.mean((hidden @ params["w2"] - returns) ** 2)


def batch(key, size=16, width=16, actions=4):
    states = jax.random.normal(key, (size, width))
    return states, states[:, :actions]
