"""Which axes of the mesh the batch is split over."""
import dataclasses

import jax
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Layout:
    mesh: jax.sharding.Mesh
    wanted: tuple[str, ...] = ("replica", "data", "fsdp")

    @property
    def batch(self):
        """Meshes of one host have no replica axis."""
        return tuple(name for name in self.wanted if name in self.mesh.axis_names)

    def rows(self):
        return P(self.batch)
