"""Bag-of-context next-word model with a sharded output table."""
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from vocab import cross_entropy

SPECS = {"embed": P(), "mix": P(), "unembed": P(None, "tp")}


def init(key, vocab, width):
    a, b, c = jax.random.split(key, 3)
    return {
        "embed": jax.random.normal(a, (vocab, width)),
        "mix": jax.random.normal(b, (width, width)) * width**-0.5,
        "unembed": jax.random.normal(c, (width, vocab)) * width**-0.5,
    }


def make_loss(mesh):
    def local(params, context, target):
        h = jnp.tanh(params["embed"][context].mean(axis=1) @ params["mix"])
        return cross_entropy(h @ params["unembed"], target, "tp").mean()

    return jax.shard_map(local, mesh=mesh, in_specs=(SPECS, P(), P()), out_specs=P())
