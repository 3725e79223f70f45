"""Single attention layer with learned projections."""
import functools

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from ring import ring_attention


def init(key, width, heads):
    names = ("q", "k", "v")
    keys = jax.random.split(key, len(names) + 1)
    shape = (width, heads, width // heads)
    params = {n: jax.random.normal(k, shape) * width**-0.5 for n, k in zip(names, keys)}
    params["o"] = jax.random.normal(keys[-1], (heads, width // heads, width)) * width**-0.5
    return params


def make_layer(mesh, axis="seq"):
    attend = functools.partial(ring_attention, axis=axis)

    def layer(params, x):
        q, k, v = (jnp.einsum("sw,whd->shd", x, params[n]) for n in "qkv")
        return x + jnp.einsum("shd,hdw->sw", attend(q, k, v), params["o"])

    return jax.jit(
        jax.shard_map(layer, mesh=mesh, in_specs=(P(), P(axis)), out_specs=P(axis))
    )
