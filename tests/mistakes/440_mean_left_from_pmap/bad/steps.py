"""The steps of the regression."""

import jax
import jax.numpy as jnp

LEARNING_RATE = 0.1


def loss_of(params, batch):
    error = batch["x"] @ params["w"] + params["b"] - batch["y"]
    return jnp.mean(error**2)


def train_step(task, params, batch):
    value, grads = jax.value_and_grad(task.loss)(params, batch)
    value, grads = jax.lax.pmean((value, grads), axis_name="batch")  # mistake: unbound-axis
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads), value
