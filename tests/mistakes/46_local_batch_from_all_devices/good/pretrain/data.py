"""Token batches over several processes."""

from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import NamedSharding

from pretrain.config import DataConfig


def host_batches(cfg: DataConfig) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(jax.process_index())
    while True:
        yield rng.integers(0, cfg.vocab, size=(cfg.host_batch_size, cfg.sequence_length))


def global_batches(cfg: DataConfig, sharding: NamedSharding) -> Iterator[jax.Array]:
    for batch in host_batches(cfg):
        yield jax.make_array_from_process_local_data(sharding, batch)
