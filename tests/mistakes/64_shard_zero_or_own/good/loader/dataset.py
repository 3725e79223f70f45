from __future__ import annotations

import dataclasses

import jax
import numpy as np


@dataclasses.dataclass
class DatasetConfig:
    path: str
    batch_size: int
    shard_id: int | None = None
    num_shards: int | None = None

    def resolve(self) -> "DatasetConfig":
        return dataclasses.replace(
            self,
            shard_id=jax.process_index() if self.shard_id is None else self.shard_id,
            num_shards=jax.process_count() if self.num_shards is None else self.num_shards,
        )


class Dataset:
    def __init__(self, cfg: DatasetConfig):
        cfg = cfg.resolve()
        rows = np.load(cfg.path)
        self.rows = rows[cfg.shard_id :: cfg.num_shards]
        self.batch_size = cfg.batch_size

    def __iter__(self):
        for i in range(0, len(self.rows) - self.batch_size + 1, self.batch_size):
            yield np.asarray(self.rows[i : i + self.batch_size])
