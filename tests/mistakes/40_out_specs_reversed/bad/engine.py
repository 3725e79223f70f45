"""Compiles the decoder for a mesh."""

from functools import partial

import jax
from jax.sharding import Mesh, PartitionSpec as P

from attention import local_decode


class Engine:
    """Holds the compiled decoder; heads are split over `axis`."""

    def __init__(self, mesh: Mesh, axis: str = "model"):
        self.cache_spec = P(None, None, axis)
        self.query_spec = P(None, axis)
        mapped = partial(
            jax.shard_map,
            mesh=mesh,
            in_specs=(self.cache_spec, self.query_spec, self.cache_spec, P()),
            out_specs=(self.query_spec, self.cache_spec),  # mistake: shard-map-spec-order
        )
        self.decode = jax.jit(mapped(local_decode))
