import jax
import jax.numpy as jnp


def init(key, dim=8):
    k1, k2 = jax.random.split(key)
    return {"w1": jax.random.normal(k1, (dim, dim)), "w2": jax.random.normal(k2, (dim, 1))}


def loss(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["w1"]) @ params["w2"] - y) ** 2)
