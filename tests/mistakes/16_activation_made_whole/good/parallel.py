"""Mesh axes and the specs of what is passed between layers."""

import dataclasses

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Axes:
    batch: str = "dp"
    model: str = "tp"


@dataclasses.dataclass(frozen=True)
class Parallel:
    mesh: Mesh
    axes: Axes = Axes()

    def tokens(self) -> NamedSharding:
        return NamedSharding(self.mesh, P(self.axes.batch, None))

    def hidden(self) -> NamedSharding:
        """Of (batch, length, hidden) inside a feed-forward layer."""
        return NamedSharding(self.mesh, P(self.axes.batch, None, self.axes.model))

    def weight(self, dim: int) -> NamedSharding:
        return NamedSharding(self.mesh, P(*(self.axes.model if i == dim else None for i in range(2))))


def make(dp: int, tp: int) -> Parallel:
    axes = Axes()
    auto = (jax.sharding.AxisType.Auto,) * 2
    return Parallel(jax.make_mesh((dp, tp), (axes.batch, axes.model), axis_types=auto), axes)
