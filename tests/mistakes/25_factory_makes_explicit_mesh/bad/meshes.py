"""Mesh factories."""

import jax
from jax.sharding import AxisType, Mesh

AXES = ("data", "model")


def build(shape: tuple[int, int], axes: tuple[str, str] = AXES) -> Mesh:
    return jax.make_mesh(shape, axes)  # mistake: wsc-on-explicit-mesh


def from_flag(flag: str) -> Mesh:
    """Parse a flag such as `2x4`."""
    data, model = (int(part) for part in flag.split("x"))
    return build((data, model))
