"""Synthetic batches, placed over the devices of the run."""

from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from config import Config

Batch = dict[str, jax.Array]


def raw_batches(cfg: Config) -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(cfg.seed)
    weights = rng.normal(size=(cfg.features, 1)).astype(np.float32)
    while True:
        x = rng.normal(size=(cfg.batch_size, cfg.features)).astype(np.float32)
        yield {"inputs": x, "targets": x @ weights, "mask": np.ones((cfg.batch_size,), np.float32)}


class ShardedLoader:
    """Wraps an iterator of host batches."""

    def __init__(self, source: Iterator[dict[str, np.ndarray]], mesh: Mesh, axis: str):
        self.source = source
        self.sharding = NamedSharding(mesh, PartitionSpec(axis))

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.source:
            yield self._place(batch)

    def _place(self, batch: dict[str, np.ndarray]) -> Batch:
        for name, value in batch.items():
            value = jax.device_put(value, self.sharding)  # mistake: discarded-placement
        return batch
