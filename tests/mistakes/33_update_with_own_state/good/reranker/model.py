import jax
import jax.numpy as jnp
from flax import nnx


class Reranker(nnx.Module):
    """Scores documents against a query."""

    def __init__(self, dim: int, hidden: int, rngs: nnx.Rngs):
        self.query = nnx.Linear(dim, hidden, rngs=rngs)
        self.document = nnx.Linear(dim, hidden, rngs=rngs)

    def __call__(self, query: jax.Array, documents: jax.Array) -> jax.Array:
        return jnp.einsum("h,dh->d", jnp.tanh(self.query(query)), jnp.tanh(self.document(documents)))
