from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from lookup import by_products


class Embedding:
    """Words in, vectors out; the table is split over `axis`."""

    def __init__(self, mesh, axis="vocab"):
        self.mesh, self.axis = mesh, axis
        self.lookup = jax.shard_map(
            partial(by_products, axis=axis), mesh=mesh, in_specs=(P(axis, None), P()), out_specs=P()
        )

    def init(self, key, words, width):
        table = jax.random.normal(key, (words, width)) * width**-0.5
        return jax.device_put(table, NamedSharding(self.mesh, P(self.axis, None)))

    def __call__(self, table, words):
        return self.lookup(table, words)


def logits(table, vectors):
    """The compiler lays this product out."""
    return jnp.einsum("...d,vd->...v", vectors, table)
