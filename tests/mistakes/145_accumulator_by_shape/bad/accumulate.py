from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx


@dataclass
class Accumulator:
    """Sums gradients over `every` micro-batches on the host's side of the loop."""

    every: int
    total: nnx.State | None = None
    seen: int = 0

    def reset(self, params):
        self.total = jax.tree.map(lambda p: jnp.zeros(p.shape, p.dtype), params)  # mistake: zeros-from-shape
        self.seen = 0

    def add(self, grads):
        self.total = _add(self.total, grads)
        self.seen += 1
        return self.seen == self.every

    def mean(self):
        return jax.tree.map(lambda t: t / self.seen, self.total)


@jax.jit
def _add(total, grads):
    return jax.tree.map(jnp.add, total, grads)
