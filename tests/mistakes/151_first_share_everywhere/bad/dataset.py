import dataclasses
from typing import Iterator

import jax
import numpy as np


@dataclasses.dataclass
class ShardedDataset:
    """Pretends to be a directory of shard-00000.npz files."""

    shards: int
    per_shard: int
    dim: int
    classes: int
    seed: int

    def read_shard(self, i: int):
        rng = np.random.default_rng((self.seed, i))
        y = rng.integers(0, self.classes, self.per_shard)
        centers = np.random.default_rng(self.seed).normal(size=(self.classes, self.dim)) * 2
        x = centers[y] + rng.normal(size=(self.per_shard, self.dim))
        return x.astype(np.float32), y.astype(np.int32)

    def shard_order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.shards)


class HostLoader:
    """Yields this host's part of each global batch."""

    def __init__(self, ds: ShardedDataset, global_batch: int):
        self.ds = ds
        if global_batch % jax.process_count():
            raise ValueError("global batch must divide by the number of hosts")
        if ds.shards % jax.process_count():
            raise ValueError("need the same number of shards on every host")
        self.host_batch = global_batch // jax.process_count()

    def __len__(self):
        return self.ds.shards * self.ds.per_shard // (self.host_batch * jax.process_count())

    def epoch(self, epoch: int) -> Iterator[dict]:
        order = self.ds.shard_order(epoch)
        mine = order[: len(order) // jax.process_count()]  # mistake: same-rows-in-each-process
        xs, ys = zip(*(self.ds.read_shard(int(i)) for i in mine))
        x, y = np.concatenate(xs), np.concatenate(ys)
        perm = np.random.default_rng((self.ds.seed, epoch, 1)).permutation(len(y))
        for b in range(len(self)):
            idx = perm[b * self.host_batch : (b + 1) * self.host_batch]
            yield {"x": x[idx], "y": y[idx]}
