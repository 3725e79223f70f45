"""A token file cut into examples, and the part of it one process reads."""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Corpus:
    tokens: np.ndarray
    length: int

    def __len__(self) -> int:
        return len(self.tokens) // self.length

    def __getitem__(self, i: int) -> np.ndarray:
        return self.tokens[i * self.length : (i + 1) * self.length]


def process_examples(corpus: Corpus) -> range:
    """The indices of the examples this process reads; together the processes read all of them."""
    return range(jax.process_index(), len(corpus), jax.device_count())  # mistake: local-and-global-counts


def local_batches(corpus: Corpus, global_batch: int, seed: int) -> Iterator[np.ndarray]:
    per_process = global_batch // jax.process_count()
    order = np.random.default_rng(seed).permutation(np.asarray(process_examples(corpus)))
    for start in range(0, len(order) - per_process + 1, per_process):
        yield np.stack([corpus[i] for i in order[start : start + per_process]])
