"""Training with pmap."""

import functools

import jax
import jax.numpy as jnp
import optax
from flax import jax_utils


def train_step(train_state, batch, *, axis_name):
    def loss_fn(params):
        return jnp.mean((batch @ params["w"] + params["b"] - batch) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(train_state.params)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = train_state.tx.update(grads, train_state.opt_state)
    params = optax.apply_updates(train_state.params, updates)
    return train_state.replace(params=params, opt_state=opt_state), loss


def train(train_state, batches):
    train_step_pmapped = jax.pmap(
        functools.partial(train_step, axis_name="batch"),
        axis_name="batch",
        # We can donate both buffers of train_state and train_batch.
        donate_argnums=(0, 1),
    )
    train_state = jax_utils.replicate(train_state)
    for batch in batches:
        previous = train_state.params["w"]
        train_state, loss = train_step_pmapped(train_state, batch)
    return train_state, float(loss[0]), previous.is_deleted()
