"""Mapped train step and key handling."""
import functools

import jax
import jax.numpy as jnp
import optax
from flax import jax_utils
from jax import lax, random


@functools.partial(jax.pmap, axis_name="i", donate_argnums=(0,))
def train_step(state, batch, key):
    def loss_fn(params):
        logits, extra = state.apply_fn(
            {"params": params},
            batch["ids"],
            train=True,
            rngs={"dropout": key},
            mutable=["intermediates"],
        )
        nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()
        return nll, extra["intermediates"]["active"][0]

    (loss, active), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = lax.pmean(grads, "i")
    coverage = jnp.mean(lax.pmax(active, "i") > 0)
    return state.apply_gradients(grads=grads), {"loss": lax.pmean(loss, "i"), "coverage": coverage}


class KeyStream:
    def __init__(self, seed):
        self.key = random.PRNGKey(seed)

    def per_device(self):
        self.key, sub = random.split(self.key)
        return jax_utils.replicate(sub)  # mistake: key-replicated
