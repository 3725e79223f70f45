"""Weights as the kernels want them."""

import jax
import jax.numpy as jnp


def transpose_experts(weight: jax.Array) -> jax.Array:
    """From (experts, out, in) to (experts, in, out)."""
    return jnp.swapaxes(weight, 1, 2)


def expand_scale(scale: jax.Array) -> jax.Array:
    """One scale for each output channel, in a shape that multiplies the weight."""
    return scale.astype(jnp.float32)[:, None, :]
