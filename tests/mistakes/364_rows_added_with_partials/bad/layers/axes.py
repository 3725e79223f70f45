"""Which mesh axes the parts of the model are split over."""

from dataclasses import dataclass

import jax


@dataclass(frozen=True)
class Layout:
    """Names of mesh axes, and how many devices lie along each."""

    rows: str = "data"
    features: str = "model"
    shape: tuple[int, int] = (4, 2)

    @property
    def names(self):
        return (self.rows, self.features)

    def mesh(self):
        kinds = (jax.sharding.AxisType.Auto,) * len(self.shape)
        return jax.make_mesh(self.shape, self.names, axis_types=kinds)
