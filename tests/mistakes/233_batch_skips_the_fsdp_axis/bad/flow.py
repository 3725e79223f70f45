"""Affine coupling flow."""
import jax
import jax.numpy as jnp


def init(key, features, width, depth=2):
    half = features // 2
    out = []
    for k in jax.random.split(key, depth):
        a, b = jax.random.split(k)
        out.append(
            {
                "a": jax.random.normal(a, (half, width)) * half**-0.5,
                "b": jax.random.normal(b, (width, 2 * half)) * 0.01,
                "c": jnp.zeros(2 * half),
            }
        )
    return out


def log_prob(params, x):
    logdet = 0.0
    for p in params:
        u, v = jnp.split(x, 2, -1)
        s, t = jnp.split(jnp.tanh(u @ p["a"]) @ p["b"] + p["c"], 2, -1)
        s = jnp.tanh(s)
        x = jnp.concatenate([v * jnp.exp(s) + t, u], -1)
        logdet += s.sum(-1)
    return logdet - 0.5 * (x**2 + jnp.log(2 * jnp.pi)).sum(-1)
