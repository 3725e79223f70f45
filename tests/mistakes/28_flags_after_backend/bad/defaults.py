"""Defaults of the command line."""

import dataclasses

import jax

SEED = 0
NUM_DEVICES = jax.device_count()  # mistake: xla-flags-after-backend


@dataclasses.dataclass
class Defaults:
    learning_rate: float = 0.1
    per_device_batch: int = 2
    steps: int = 2
