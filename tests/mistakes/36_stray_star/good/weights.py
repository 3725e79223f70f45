"""Creates and places the weights."""

import jax
import jax.numpy as jnp
from einshard import einshard

from expressions import EXPRESSIONS


def init(key, dim, hidden):
    shapes = {"up": (dim, hidden), "gate": (dim, hidden), "down": (hidden, dim)}
    keys = jax.random.split(key, len(shapes))
    weights = {
        name: jax.random.normal(k, shape) * shape[0] ** -0.5 for k, (name, shape) in zip(keys, shapes.items())
    }
    weights["norm"] = jnp.ones((dim,))
    return weights


def place(weights):
    return {name: einshard(value, EXPRESSIONS[name]) for name, value in weights.items()}
