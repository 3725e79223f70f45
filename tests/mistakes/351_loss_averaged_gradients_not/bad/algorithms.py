"""What one step of each algorithm does, by its name in the configuration."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

DEVICES = "devices"


class State(NamedTuple):
    params: jax.Array
    target: jax.Array
    opt_state: optax.OptState
    steps: jax.Array


def make_regression(network, tx, period):
    def loss_fn(params, target, batch):
        predicted = network(params, batch["x"])
        bootstrapped = batch["y"] + 0.5 * network(target, batch["next"])
        error = predicted - jax.lax.stop_gradient(bootstrapped)
        return jnp.mean(error**2), {"largest": jnp.max(jnp.abs(error))}

    def step(state, batch):
        (loss, extra), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params, state.target, batch)
        loss = jax.lax.pmean(loss, axis_name=DEVICES)

        updates, opt_state = tx.update(grads, state.opt_state, state.params)  # mistake: gradients-not-averaged
        params = optax.apply_updates(state.params, updates)
        steps = state.steps + 1
        target = optax.periodic_update(params, state.target, steps, period)
        return State(params, target, opt_state, steps), {"loss": loss, **extra}

    return step


def make_frozen(network, tx, period):
    def step(state, batch):
        loss = jax.lax.pmean(jnp.mean((network(state.params, batch["x"]) - batch["y"]) ** 2), axis_name=DEVICES)
        return state._replace(steps=state.steps + 1), {"loss": loss}

    return step


ALGORITHMS = {"regression": make_regression, "frozen": make_frozen}
