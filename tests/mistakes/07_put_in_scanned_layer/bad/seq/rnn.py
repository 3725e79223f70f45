"""A recurrent network that is scanned over time."""

import jax
import jax.numpy as jnp

from seq.partition import shard_batch


def init(key, dim):
    return {"w": jax.random.normal(key, (dim, dim)) * dim**-0.5, "b": jnp.zeros((dim,))}


def cell(params, hidden, t):
    hidden = jnp.tanh(hidden @ params["w"] + params["b"] + t)
    return hidden, hidden


def unroll(params, batch: int, steps: int):
    """Generate `steps` hidden states from a zero state."""
    body = jax.checkpoint(lambda h, t: cell(params, h, t))
    start = shard_batch(jnp.zeros((batch, params["b"].shape[0])))
    _, trace = jax.lax.scan(body, start, jnp.arange(steps, dtype=jnp.float32))
    return jnp.swapaxes(trace, 0, 1)
