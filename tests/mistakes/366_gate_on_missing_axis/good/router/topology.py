"""The mesh that requests are served on."""

from dataclasses import dataclass

import jax


@dataclass(frozen=True)
class Options:
    width: int = 64
    hidden: int = 128
    experts: int = 0
    tensor: int = 4


def serving_mesh(options):
    shape = (jax.device_count() // options.tensor, options.tensor)
    kinds = (jax.sharding.AxisType.Auto,) * 2
    return jax.make_mesh(shape, ("data", "model"), axis_types=kinds)
