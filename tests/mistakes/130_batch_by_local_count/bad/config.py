"""Run configuration."""
import dataclasses

import jax


@dataclasses.dataclass(frozen=True)
class RunConfig:
    global_batch: int = 64
    dataset_size: int = 2048
    features: int = 8
    epochs: int = 2
    lr: float = 0.05

    @property
    def steps_per_epoch(self):
        return self.dataset_size // self.global_batch

    @property
    def per_device_batch(self):
        return self.global_batch // jax.local_device_count()  # mistake: local-and-global-counts

    @property
    def per_process_batch(self):
        return self.per_device_batch * jax.local_device_count()
