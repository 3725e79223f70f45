from dataclasses import dataclass, field

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclass
class MeshSettings:
    data: int = 2
    fsdp: int = 4

    def build(self):
        return Mesh(np.array(jax.devices()).reshape(self.data, self.fsdp), ("data", "fsdp"))


@dataclass
class Settings:
    mesh: MeshSettings = field(default_factory=MeshSettings)
    features: int = 32
    width: int = 128
    batch: int = 64
    steps: int = 3
    lr: float = 1e-3
    # axes over which the example dimension is split
    batch_axes: tuple = ("data", "fsdp")


def batch_sharding(settings, mesh):
    return NamedSharding(mesh, P(settings.batch_axes))


def param_sharding(mesh, x):
    big = x.ndim == 2 and x.shape[0] % mesh.shape["fsdp"] == 0
    return NamedSharding(mesh, P("fsdp", None) if big else P())
