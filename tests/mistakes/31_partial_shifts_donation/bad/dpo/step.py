"""The update."""

import functools

import jax
import jax.numpy as jnp
import optax

from dpo import policy


def train_step(cfg, params, reference, batch):
    """One step on a batch of chosen and rejected sequences."""

    def loss_fn(params):
        def margin(tokens):
            return policy.log_prob(params, tokens) - policy.log_prob(reference, tokens)

        return -jnp.mean(jax.nn.log_sigmoid(cfg.beta * (margin(batch["chosen"]) - margin(batch["rejected"]))))

    loss, grads = jax.value_and_grad(loss_fn)(params)
    params = optax.tree_utils.tree_add_scale(params, -cfg.learning_rate, grads)
    return params, loss


def build(cfg):
    return jax.jit(functools.partial(train_step, cfg), donate_argnums=(1,))  # mistake: donate-index
