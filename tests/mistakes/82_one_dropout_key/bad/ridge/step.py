import functools

import jax
import jax.numpy as jnp
import optax

TX = optax.sgd(0.1)


def loss_fn(params, batch, key):
    """The squared error, with a part of the features left out."""
    x = batch["x"] * jax.random.bernoulli(key, 0.9, batch["x"].shape)
    return jnp.mean((x @ params["w"] - batch["y"]) ** 2)


@functools.partial(jax.pmap, axis_name="batch")
def train_step(params, opt_state, batch, key):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch, key)
    grads = jax.lax.pmean(grads, "batch")
    updates, opt_state = TX.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, jax.lax.pmean(loss, "batch")
