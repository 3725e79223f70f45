"""Rows in chunks, so that the activations of all of them are never there at once."""

import jax
import jax.numpy as jnp


def in_chunks(rows, count):
    shape = (rows.shape[0] // count, count) + rows.shape[1:]
    return jnp.swapaxes(jnp.reshape(rows, shape), 0, 1)


def mapped(function, rows, count):
    def one(total, chunk):
        return total + function(chunk), None

    total, _ = jax.lax.scan(one, jnp.zeros(()), in_chunks(rows, count))
    return total
