"""Residual MLP classifier."""
import jax
import jax.numpy as jnp


def init(key, features, width, depth, classes):
    keys = jax.random.split(key, depth + 2)
    return {
        "stem": jax.random.normal(keys[0], (features, width)) * features**-0.5,
        "blocks": [
            {"w": jax.random.normal(k, (width, width)) * width**-0.5, "b": jnp.zeros((width,))}
            for k in keys[1:-1]
        ],
        "head": 0.1 * jax.random.normal(keys[-1], (width, classes)),
    }


def apply(params, x):
    h = x @ params["stem"]
    for block in params["blocks"]:
        h = h + jax.nn.relu(h @ block["w"] + block["b"])
    return h @ params["head"]
