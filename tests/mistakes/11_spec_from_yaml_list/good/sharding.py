"""From settings to shardings."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from settings import Settings


class Layout:
    def __init__(self, settings: Settings):
        shape = tuple(settings.mesh.values())
        self.mesh = Mesh(np.asarray(jax.devices()).reshape(shape), tuple(settings.mesh))
        self.settings = settings

    @property
    def activation(self) -> NamedSharding:
        spec = PartitionSpec(*self.settings.activation_axes)
        return NamedSharding(self.mesh, spec)

    @property
    def replicated(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())
