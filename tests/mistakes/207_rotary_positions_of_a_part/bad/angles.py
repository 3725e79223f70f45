"""Rotary embeddings."""
import jax.numpy as jnp


def rotate(x, positions, base=100.0):
    half = x.shape[-1] // 2
    frequencies = base ** (-jnp.arange(half) / half)
    angles = jnp.einsum("s,f->sf", positions, frequencies)
    one, two = x[..., :half], x[..., half:]
    return jnp.concatenate(
        [one * jnp.cos(angles) - two * jnp.sin(angles), one * jnp.sin(angles) + two * jnp.cos(angles)], axis=-1
    )
