"""An actor-critic update: copies of the environments are mapped by vmap on each device, and devices by pmap."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax


class Params(NamedTuple):
    actor: jax.Array
    critic: jax.Array


class Learner(NamedTuple):
    params: Params
    opt_state: optax.OptState


def make_update(tx):
    def actor_loss(actor, critic, obs, action):
        logits = obs @ actor
        advantage = jax.lax.stop_gradient(jnp.tanh(obs @ critic))[:, 0]
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(action.shape[0]), action] * advantage)

    def critic_loss(critic, obs, reward):
        return jnp.mean((obs @ critic - reward[:, None]) ** 2)

    def update(state, batch):
        obs, action, reward = batch
        actor_grads = jax.grad(actor_loss)(state.params.actor, state.params.critic, obs, action)
        critic_grads = jax.grad(critic_loss)(state.params.critic, obs, reward)
        grads = Params(actor_grads, critic_grads)
        grads = jax.lax.pmean(grads, axis_name="device")  # mistake: axis-left-out
        updates, opt_state = tx.update(grads, state.opt_state, state.params)
        return Learner(optax.apply_updates(state.params, updates), opt_state), jnp.mean(reward)

    return update


def make_learner(tx):
    batched = jax.vmap(make_update(tx), axis_name="batch")
    return jax.pmap(batched, axis_name="device")
