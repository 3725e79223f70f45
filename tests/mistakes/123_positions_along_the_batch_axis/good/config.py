"""Model and mesh settings."""
import dataclasses

import jax
import numpy as np
from jax.sharding import Mesh


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    vocab: int = 50
    width: int = 24
    max_len: int = 64
    kernel: int = 5
    seed: int = 0


def build_mesh():
    devices = np.array(jax.devices())
    seq = 2 if len(devices) % 2 == 0 else 1
    return Mesh(devices.reshape(-1, seq), ("data", "seq"))
