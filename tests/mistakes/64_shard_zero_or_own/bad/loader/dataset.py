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
            shard_id=self.shard_id or jax.process_index(),  # mistake: or-process-index
            num_shards=self.num_shards or jax.process_count(),
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
