"""Batches, and what they look like."""

from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


@dataclass(frozen=True)
class Feed:
    mesh: jax.sharding.Mesh
    rows: int = 64
    width: int = 32

    @property
    def fields(self):
        return {"x": ((self.rows, self.width), np.float32), "y": ((self.rows,), np.float32)}

    def batches(self, count):
        split = NamedSharding(self.mesh, P("data"))
        rng = np.random.default_rng(7)
        for _ in range(count):
            made = {name: rng.normal(size=shape).astype(dtype) for name, (shape, dtype) in self.fields.items()}
            yield jax.device_put(made, split)
