"""What the devices are arranged as."""

from dataclasses import dataclass

import jax


@dataclass(frozen=True)
class Arrangement:
    names: tuple[str, ...] = ("tensor", "data")
    counts: tuple[int, ...] = (2, 4)


def arrange(arrangement: Arrangement):
    return jax.make_mesh(arrangement.counts, arrangement.names)
