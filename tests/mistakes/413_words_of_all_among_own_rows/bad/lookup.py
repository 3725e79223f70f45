"""An embedding table whose rows are split over the devices."""
import jax
import jax.numpy as jnp


def by_products(table, words, axis):
    """Rows of the table, without a gather: each device adds those that it has."""
    rows, _ = table.shape
    here = jnp.arange(rows)
    found = (words[..., None] == here).astype(table.dtype)  # mistake: shard-offset
    return jax.lax.psum(found @ table, axis)
