import jax
import jax.numpy as jnp


def init(key, dim=8, hidden=32):
    k1, k2 = jax.random.split(key)
    return {
        "in": jax.random.normal(k1, (dim + 1, hidden)) * 0.3,
        "out": jax.random.normal(k2, (hidden, dim)) * 0.1,
    }


def loss(params, key, x):
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, x.shape)
    t = jax.random.uniform(time_key, (x.shape[0], 1))
    noisy = jnp.sqrt(1 - t) * x + jnp.sqrt(t) * noise
    hidden = jax.nn.silu(jnp.concatenate([noisy, t], axis=-1) @ params["in"])
    return jnp.mean((hidden @ params["out"] - noise) ** 2)
