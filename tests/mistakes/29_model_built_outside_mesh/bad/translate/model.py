"""A feed-forward translator with annotated weights."""

import jax
from flax import nnx

init = nnx.initializers.lecun_normal()


class Translator(nnx.Module):
    def __init__(self, dim: int, hidden: int, *, rngs: nnx.Rngs):
        self.up = nnx.Linear(
            dim, hidden, use_bias=False, kernel_init=nnx.with_partitioning(init, (None, "model")), rngs=rngs
        )
        self.down = nnx.Linear(
            hidden, dim, use_bias=False, kernel_init=nnx.with_partitioning(init, ("model", None)), rngs=rngs
        )

    def __call__(self, x):
        return self.down(jax.nn.relu(self.up(x)))
