"""Configuration of the trainer."""

import dataclasses
from functools import cached_property

import haliax as hax
import jax
import numpy as np
from jax.sharding import Mesh


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    vocab_size: int = 64
    hidden_dim: int = 32

    Vocab = property(lambda self: hax.Axis("vocab", self.vocab_size))
    Embed = property(lambda self: hax.Axis("embed", self.hidden_dim))


@dataclasses.dataclass(frozen=True)
class TrainerConfig:
    batch: int = 8
    axis_resources: dict[str, str] = dataclasses.field(default_factory=lambda: {"batch": "data"})
    parameter_axis_resources: dict[str, str] = dataclasses.field(
        default_factory=lambda: {"embd": "data"}  # mistake: axis-mapping-key
    )

    @cached_property
    def device_mesh(self) -> Mesh:
        return Mesh(np.array(jax.devices()), ("data",))

    @property
    def parameter_axis_mapping(self):
        return {**self.axis_resources, **self.parameter_axis_resources}
