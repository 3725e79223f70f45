"""Reductions shared by the training and the evaluation step."""
import jax
import jax.numpy as jnp
from jax import lax


def average(tree, axis="data"):
    return jax.tree.map(lambda v: lax.pmean(v, axis), tree)


def global_moments(x, axis="data"):
    """Mean and standard deviation of `x` over every device."""
    first = lax.pmean(jnp.mean(x), axis)
    second = lax.pmean(jnp.mean(jnp.square(x)), axis)
    return first, jnp.sqrt(jnp.maximum(second - first * first, 0.0))
