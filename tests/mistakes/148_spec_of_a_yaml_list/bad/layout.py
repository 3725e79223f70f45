from dataclasses import dataclass

import jax
import numpy as np
import yaml
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@dataclass
class Layout:
    mesh: Mesh
    tensors: dict
    kernel: dict

    @classmethod
    def load(cls, path):
        with open(path) as f:
            raw = yaml.safe_load(f)
        m = raw["mesh"]
        mesh = Mesh(np.array(jax.devices()).reshape(m["sizes"]), m["names"])
        specs = {k: PartitionSpec(axes) for k, axes in raw["tensors"].items()}  # mistake: spec-from-yaml-list
        return cls(mesh, {k: NamedSharding(mesh, s) for k, s in specs.items()}, raw["kernel"])

    def __getitem__(self, name):
        return self.tensors[name]
