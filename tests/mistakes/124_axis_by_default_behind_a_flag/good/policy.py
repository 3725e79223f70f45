"""Unit-variance Gaussian policy and the REINFORCE-with-baseline objective."""
import jax
import jax.numpy as jnp


def init(key, obs, hidden, act):
    a, b = jax.random.split(key)
    return {
        "w1": jax.random.normal(a, (obs, hidden)) * obs**-0.5,
        "w2": 0.1 * jax.random.normal(b, (hidden, act)),
    }


def log_prob(params, obs, action):
    mean = jnp.tanh(obs @ params["w1"]) @ params["w2"]
    return -0.5 * jnp.sum(jnp.square(action - mean), axis=-1)
