"""A neural vector field, integrated by Euler's method."""

import equinox as eqx
import jax


class Field(eqx.Module):
    mlp: eqx.nn.MLP
    steps: int = eqx.field(static=True)

    def __init__(self, dim, steps, key):
        self.mlp = eqx.nn.MLP(dim, dim, width_size=16, depth=1, activation=jax.nn.tanh, key=key)
        self.steps = steps

    def __call__(self, y0):
        def euler(y, _):
            return y + self.mlp(y) / self.steps, None

        return jax.lax.scan(euler, y0, None, length=self.steps)[0]
