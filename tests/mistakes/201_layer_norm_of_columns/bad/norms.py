"""Normalisation along the features."""
import jax
import jax.numpy as jnp


def layer_norm(x, scale, eps=1e-5):
    mean = jnp.mean(x, axis=-1, keepdims=True)  # mistake: statistic-of-a-shard
    spread = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(spread + eps) * scale
