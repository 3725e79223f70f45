import jax.numpy as jnp
from flax import nnx

uniform = nnx.initializers.uniform(0.1)


def dense(n_in, n_out, axes, rngs):
    return nnx.Linear(n_in, n_out, kernel_init=nnx.with_partitioning(uniform, axes), rngs=rngs)


class Siren(nnx.Module):
    def __init__(self, hidden, rngs):
        self.a = dense(2, hidden, (None, "fsdp"), rngs)
        self.b = dense(hidden, hidden, ("fsdp", None), rngs)
        self.c = dense(hidden, 3, ("fsdp", None), rngs)

    def __call__(self, x):
        x = jnp.sin(30 * self.a(x))
        return self.c(jnp.sin(self.b(x)))
