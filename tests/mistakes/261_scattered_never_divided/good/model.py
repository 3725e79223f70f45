"""A linear layer whose weight is split and whose bias is not."""

import jax
import jax.numpy as jnp

from parallel import gather_with_mean_grads, sync_replicated


def init(key, width=16):
    return {"split": jax.random.normal(key, (width, width)) * 0.1, "whole": jnp.zeros(width)}


def forward(weight, bias, x):
    return x @ weight + bias


def step(axis_name):
    def grads(split, whole, x, y):
        def loss(split, whole):
            weight = gather_with_mean_grads(split, axis_name)
            return jnp.mean((forward(weight, whole, x) - y) ** 2)

        split, whole = jax.grad(loss, argnums=(0, 1))(split, whole)
        return split, sync_replicated(whole, axis_name)

    return grads
