"""Programs of flax NNX, to compare the arrays that are predicted with those that flax makes."""

from __future__ import annotations

from pathlib import Path

HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.{kind}, AxisType.{kind}))
init = nnx.initializers.lecun_normal()
whole = NamedSharding(mesh, P())


class Net(nnx.Module):
    def __init__(self, rngs, names=None):
        annotated = init if names is None else nnx.with_partitioning(init, names)
        self.up = nnx.Linear(8, 16, kernel_init=annotated, rngs=rngs)
        self.norm = nnx.LayerNorm(16, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(16, 16, use_bias=False, rngs=rngs) for _ in range(2)])
        self.down = nnx.Linear(16, 4, rngs=rngs)
        self.width = 16

    def __call__(self, x):
        x = nnx.relu(self.norm(self.up(x)))
        for layer in self.layers:
            x = x + layer(x)
        return self.down(x)


x = jnp.ones((4, 8))
"""
READ = """\
k = model.up.kernel.value
l = model.up.bias[...]
n = model.norm.scale.get_value()
o = model.layers[1].kernel[...]
"""
DATA = Path(__file__).parents[1] / "data"


def _programs(kind: str) -> list[str]:
    texts = (DATA / f"nnx_{kind.lower()}.txt").read_text()
    return [HEAD.format(kind=kind) + one.replace("READ\n", READ) for one in texts.split("---\n")]


PROGRAMS = _programs("Auto") + _programs("Explicit")
UNTOLD = frozenset(
    place for place, one in enumerate(PROGRAMS) if one.endswith("= e(jnp.ones((3,), jnp.int32))\n")
)
"""Those that raise, and of which no contract tells: rows of a split Embed."""


def program(number: int) -> str:
    """The program of a number."""
    return PROGRAMS[number]
