from dataclasses import dataclass, field

import jax
import numpy as np
import yaml
from haliax import Axis
from jax.sharding import Mesh


@dataclass(frozen=True)
class ModelConfig:
    vocab: int
    embed: int
    mlp: int
    layers: int
    position: int

    Vocab = property(lambda self: Axis("vocab", self.vocab))
    Embed = property(lambda self: Axis("embed", self.embed))
    Mlp = property(lambda self: Axis("mlp", self.mlp))
    Pos = property(lambda self: Axis("position", self.position))


@dataclass(frozen=True)
class TrainerConfig:
    batch: int
    steps: int
    lr: float
    tensor_parallel: int = 1
    parameter_axes: dict = field(default_factory=lambda: {"embed": "data"})
    compute_axes: dict = field(default_factory=lambda: {"batch": "data"})

    Batch = property(lambda self: Axis("batch", self.batch))

    def mesh(self):
        return Mesh(np.array(jax.devices()).reshape(-1, self.tensor_parallel), ("data", "model"))


def load(path):
    with open(path) as f:
        raw = yaml.safe_load(f)
    return ModelConfig(**raw["model"]), TrainerConfig(**raw["trainer"])
