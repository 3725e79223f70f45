import jax
import jax.numpy as jnp


def init(key, dim=8):
    return {"w": jax.random.normal(key, (dim, dim)) * 0.3, "b": jnp.zeros((dim,))}


def loss(params, x):
    return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) - x) ** 2)
