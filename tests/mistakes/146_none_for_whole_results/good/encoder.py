import jax
import jax.numpy as jnp


def init(key, dim=32, hidden=64):
    a, b = jax.random.split(key)
    return {"w": jax.random.normal(a, (dim, hidden)) * dim**-0.5, "v": jax.random.normal(b, (hidden, dim)) * hidden**-0.5}


def encode(params, x):
    h = jax.nn.relu(x @ params["w"]) @ params["v"]
    return h / jnp.linalg.norm(h, axis=-1, keepdims=True)
