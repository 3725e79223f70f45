"""The encoder over a data-parallel mesh."""

import equinox as eqx
import jax
from jax.sharding import Mesh, PartitionSpec as P


def encode_sharded(mesh: Mesh, axis: str = "data"):
    def per_shard(encoder, x, key):
        return encoder(x, key)  # mistake: same-key-on-every-shard

    mapped = jax.shard_map(per_shard, mesh=mesh, in_specs=(P(), P(axis), P()), out_specs=P(axis))
    return eqx.filter_jit(mapped)
