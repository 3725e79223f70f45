"""Where weights and rows go."""

from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@dataclass(frozen=True)
class Layout:
    names: tuple[str, ...] = ("replica", "zero", "tensor")
    counts: tuple[int, ...] = (2, 2, 2)
    row_axes: tuple[str, ...] = ("replica", "zero")


class Places:
    def __init__(self, layout: Layout):
        self.mesh = Mesh(np.array(jax.devices()).reshape(layout.counts), layout.names)
        self.inputs = NamedSharding(self.mesh, PartitionSpec(layout.row_axes))
        self.wide = NamedSharding(self.mesh, PartitionSpec("zero", "tensor"))
        self.narrow = NamedSharding(self.mesh, PartitionSpec("tensor", "zero"))
