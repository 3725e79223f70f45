import jax
import jax.numpy as jnp


def init_policy(key, obs, act, hidden=64):
    a, b, c = jax.random.split(key, 3)
    return {
        "torso": jax.random.normal(a, (obs, hidden)) * obs**-0.5,
        "pi": jax.random.normal(b, (hidden, act)) * 0.01,
        "v": jax.random.normal(c, (hidden, 1)) * 0.01,
    }


def policy(params, obs):
    h = jnp.tanh(obs @ params["torso"])
    return h @ params["pi"], (h @ params["v"])[..., 0]
