"""The encoder over a data-parallel mesh."""

import equinox as eqx
import jax
from jax.sharding import Mesh, PartitionSpec as P


def encode_sharded(mesh: Mesh, axis: str = "data"):
    def per_shard(encoder, x, key):
        return encoder(x, jax.random.fold_in(key, jax.lax.axis_index(axis)))

    mapped = jax.shard_map(per_shard, mesh=mesh, in_specs=(P(), P(axis), P()), out_specs=P(axis))
    return eqx.filter_jit(mapped)
