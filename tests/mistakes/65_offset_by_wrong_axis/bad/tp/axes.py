from dataclasses import dataclass

from jax.sharding import AxisType, PartitionSpec as P
import jax


@dataclass(frozen=True)
class Axes:
    data: str = "data"
    model: str = "model"

    def mesh(self, data, model):
        return jax.make_mesh((data, model), (self.data, self.model), axis_types=(AxisType.Auto, AxisType.Auto))

    def rows(self):
        return P(self.model, None)

    def batch(self):
        return P(self.data)
