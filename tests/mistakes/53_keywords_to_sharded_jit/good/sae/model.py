"""A sparse autoencoder."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

SPECS = {"encoder": P(None, "features"), "bias": P("features"), "decoder": P("features", None)}


def init(key, dim, features):
    weight = jax.random.normal(key, (dim, features)) * dim**-0.5
    return {"encoder": weight, "bias": jnp.zeros((features,)), "decoder": weight.T}


def loss(params, activations, penalty):
    codes = jax.nn.relu(activations @ params["encoder"] + params["bias"])
    error = jnp.mean((codes @ params["decoder"] - activations) ** 2)
    return error + penalty * jnp.mean(jnp.abs(codes))
