"""Noise for large arrays, drawn on the hosts: each of them draws the shards of its own devices."""

import math
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def rounded_up(size, multiple):
    return -(-size // multiple) * multiple


def parallel_noise(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    mesh: Mesh,
    sampler: Callable[..., np.ndarray] = np.random.Generator.standard_normal,
) -> jax.Array:
    """One flat array of noise, split over all devices of the mesh."""
    size = rounded_up(math.prod(shape), mesh.size)
    each = size // mesh.size
    sharding = NamedSharding(mesh, P(mesh.axis_names))

    def part(index):
        return sampler(rng, size=each).astype(np.float32)  # mistake: callback-ignores-index

    return jax.make_array_from_callback((size,), sharding, part)
