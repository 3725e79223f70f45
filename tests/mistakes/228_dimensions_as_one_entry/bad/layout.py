"""Layout file: mesh sizes and, for each kind of array, the axis of every dimension."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import yaml
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@dataclasses.dataclass(frozen=True)
class Layout:
    mesh: Mesh
    arrays: dict[str, list[str | None]]

    @classmethod
    def read(cls, path: Path) -> "Layout":
        raw = yaml.safe_load(path.read_text())
        names = tuple(raw["mesh"])
        sizes = tuple(raw["mesh"][n] for n in names)
        return cls(Mesh(np.asarray(jax.devices()).reshape(sizes), names), raw["arrays"])

    def sharding(self, kind: str) -> NamedSharding:
        dims = [d for d in self.arrays[kind]]
        while dims and dims[-1] is None:
            dims.pop()
        return NamedSharding(self.mesh, PartitionSpec(tuple(dims)))  # mistake: spec-not-partitionspec
