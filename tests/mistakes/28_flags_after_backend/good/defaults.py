"""Defaults of the command line."""

import dataclasses

import jax

SEED = 0


def num_devices() -> int:
    return jax.device_count()


@dataclasses.dataclass
class Defaults:
    learning_rate: float = 0.1
    per_device_batch: int = 2
    steps: int = 2
