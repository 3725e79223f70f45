"""A stack of gated feed-forward blocks."""

import jax
import jax.numpy as jnp


def init_block(key, dim, hidden):
    gate, up, down = jax.random.split(key, 3)
    scale = dim**-0.5
    return {
        "gate": jax.random.normal(gate, (dim, hidden)) * scale,
        "up": jax.random.normal(up, (dim, hidden)) * scale,
        "down": jax.random.normal(down, (hidden, dim)) * hidden**-0.5,
    }


def init(key, dim=32, hidden=64, depth=2):
    return {"blocks": [init_block(k, dim, hidden) for k in jax.random.split(key, depth)]}


def apply(params, x):
    for block in params["blocks"]:
        x = x + (jax.nn.silu(x @ block["gate"]) * (x @ block["up"])) @ block["down"]
    return x


def loss(params, x, y):
    return jnp.mean((apply(params, x) - y) ** 2)
