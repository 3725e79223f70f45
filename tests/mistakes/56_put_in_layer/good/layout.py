import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


class Layout:
    """Where things live."""

    def __init__(self, data: int, model: int):
        devices = np.asarray(jax.devices()).reshape(data, model)
        self.mesh = Mesh(devices, ("data", "model"))

    def batch(self):
        return NamedSharding(self.mesh, P("data"))

    def hidden(self):
        return NamedSharding(self.mesh, P("data", "model"))

    def replicated(self):
        return NamedSharding(self.mesh, P())

    def place_hidden(self, h):
        return jax.lax.with_sharding_constraint(h, self.hidden())
