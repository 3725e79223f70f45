from dataclasses import dataclass, field

import jax


@dataclass
class MeshConfig:
    axes: dict = field(default_factory=lambda: {"dp": 2, "tp": 4})

    def build(self):
        return jax.make_mesh(
            tuple(self.axes.values()), tuple(self.axes),
            axis_types=(jax.sharding.AxisType.Auto,) * len(self.axes),
        )
