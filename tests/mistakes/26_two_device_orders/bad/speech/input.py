"""Batches of audio features."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from speech.topology import DATA, MODEL


class FeatureLoader:
    """Random features, split over the data axis."""

    def __init__(self, mesh: Mesh, batch: int, frames: int, bins: int):
        self.shape = (batch, frames, bins)
        self.mesh = mesh
        self.rng = np.random.default_rng(0)

    def sharding(self) -> NamedSharding:
        parallel = self.mesh.shape[MODEL]
        devices = np.asarray(jax.devices()).reshape(parallel, -1).T
        return NamedSharding(Mesh(devices, (DATA, MODEL)), PartitionSpec(DATA))  # mistake: device-order

    def __iter__(self):
        sharding = self.sharding()
        while True:
            yield jax.device_put(self.rng.normal(size=self.shape).astype(np.float32), sharding)
