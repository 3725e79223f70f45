"""Batch normalisation over a sharded batch; channels are split over MODEL."""
import jax.numpy as jnp
from jax import lax

from meshes import DATA, MODEL


def init_norm(channels):
    return {"gamma": jnp.ones((channels,)), "beta": jnp.zeros((channels,))}


def init_running(channels):
    return {"mean": jnp.zeros((channels,)), "var": jnp.ones((channels,))}


def batch_norm(p, running, x, train, momentum=0.9, eps=1e-5):
    if train:
        mean = lax.pmean(jnp.mean(x, axis=0), DATA)
        second = lax.pmean(jnp.mean(jnp.square(x), axis=0), MODEL)  # mistake: wrong-reducer
        var = jnp.maximum(second - jnp.square(mean), 0.0)
        running = {
            "mean": momentum * running["mean"] + (1 - momentum) * mean,
            "var": momentum * running["var"] + (1 - momentum) * var,
        }
    else:
        mean, var = running["mean"], running["var"]
    y = (x - mean) * lax.rsqrt(var + eps)
    return y * p["gamma"] + p["beta"], running
