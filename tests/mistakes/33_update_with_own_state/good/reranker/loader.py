"""Builds a model whose weights are split over the mesh."""

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from reranker.model import Reranker


def _spec(path, leaf) -> PartitionSpec:
    """Output features are split; biases follow them."""
    del path
    return PartitionSpec(None, "model") if leaf.ndim == 2 else PartitionSpec("model")


def load(mesh: Mesh, dim: int, hidden: int, seed: int = 0) -> Reranker:
    @nnx.jit
    def create() -> Reranker:
        model = Reranker(dim, hidden, rngs=nnx.Rngs(seed))
        state = nnx.state(model, nnx.Param)
        shardings = jax.tree_util.tree_map_with_path(lambda p, x: NamedSharding(mesh, _spec(p, x)), state)
        sharded = jax.lax.with_sharding_constraint(state, shardings)
        nnx.update(model, sharded)
        return model

    return create()
