"""Normalisation along the features."""
import jax
import jax.numpy as jnp


def layer_norm(x, scale, eps=1e-5):
    mean = jax.lax.pmean(x.mean(-1, keepdims=True), "tensor")
    spread = jax.lax.pmean(((x - mean) ** 2).mean(-1, keepdims=True), "tensor")
    return (x - mean) * jax.lax.rsqrt(spread + eps) * scale
