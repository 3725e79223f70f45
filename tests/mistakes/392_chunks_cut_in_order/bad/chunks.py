"""Rows in chunks, so that the activations of all of them are never there at once."""

import jax
import jax.numpy as jnp


def in_chunks(rows, count):
    shape = (count, rows.shape[0] // count) + rows.shape[1:]
    return jnp.reshape(rows, shape)  # mistake: split-along-scan


def mapped(function, rows, count):
    def one(total, chunk):
        return total + function(chunk), None

    total, _ = jax.lax.scan(one, jnp.zeros(()), in_chunks(rows, count))
    return total
