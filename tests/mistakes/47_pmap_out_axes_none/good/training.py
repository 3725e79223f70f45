"""The pmapped step."""

from functools import partial

import jax
import jax.numpy as jnp


def loss_fn(params, x):
    return jnp.mean((x - params["center"]) ** 2)


@partial(jax.pmap, axis_name="batch", out_axes=(0, None))
def train_step(params, x):
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    loss, grads = jax.lax.pmean((loss, grads), axis_name="batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, loss
