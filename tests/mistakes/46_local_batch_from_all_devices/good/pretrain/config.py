"""Sizes of a run."""

from dataclasses import dataclass

import jax


@dataclass(frozen=True)
class DataConfig:
    per_device_batch_size: int = 2
    sequence_length: int = 8
    vocab: int = 32

    @property
    def host_batch_size(self) -> int:
        """Examples that one process loads."""
        return self.per_device_batch_size * jax.local_device_count()
