import jax.numpy as jnp
from flax import nnx

P_ = nnx.with_partitioning
init = nnx.initializers.lecun_normal()


class Tower(nnx.Module):
    def __init__(self, d_in, hidden, d_out, *, rngs):
        self.up = nnx.Linear(d_in, hidden, kernel_init=P_(init, (None, "tp")), use_bias=False, rngs=rngs)
        self.down = nnx.Linear(hidden, d_out, kernel_init=P_(init, ("tp", None)), use_bias=False, rngs=rngs)

    def __call__(self, x):
        return self.down(nnx.gelu(self.up(x)))


class Ranker(nnx.Module):
    def __init__(self, *, rngs):
        self.question = Tower(24, 64, 16, rngs=rngs)
        self.answer = Tower(40, 64, 16, rngs=rngs)

    def __call__(self, q, a):
        return jnp.einsum("qd,ad->qa", self.question(q), self.answer(a))
