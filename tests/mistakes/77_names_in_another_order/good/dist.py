from dataclasses import dataclass

import jax
from jax.experimental import mesh_utils
from jax.sharding import Mesh


@dataclass
class ParallelConfig:
    data_parallel: int = -1
    model_parallel: int = 2

    def resolve(self, n):
        data = self.data_parallel
        if data == -1:
            data = n // self.model_parallel
        return data, self.model_parallel


def create_mesh(cfg: ParallelConfig):
    data, model = cfg.resolve(jax.device_count())
    devices = mesh_utils.create_device_mesh((data, model))
    return Mesh(devices, ("data", "model"))
