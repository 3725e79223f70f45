"""A layer around the projection, whose other weights every device holds."""
import jax
import jax.numpy as jnp

from attention import Output


def init(key, heads=8, head_dim=4, width=16):
    one, two = jax.random.split(key)
    return {
        "output": jax.random.normal(one, (heads, head_dim, width)),
        "scale": 1 + 0.1 * jax.random.normal(two, (width,)),
    }


def layer(params, heads, mesh, names):
    return Output(mesh, names)(params["output"], heads) * params["scale"]


def reference(params, heads):
    return jnp.einsum("bthk,hkd->btd", heads, params["output"]) * params["scale"]
