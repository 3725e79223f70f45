"""Stands in for the data of charformer, which are read from a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class CharDataset:
    """Batches of one text."""

    def __init__(self, config: Any) -> None:
        pass

    @classmethod
    def get_default_config(cls) -> None:
        """No configuration."""

    def create_iterator(self, file_pattern: str, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Batches without end."""
        while True:
            yield {
                "x": np.ones((batch_size, 128), np.int32),
                "y": np.ones((batch_size, 128), np.int32),
                "segment_ids": np.ones((batch_size, 128), np.int32),
            }

    def detokenize(self, tokens: Any) -> str:
        """The text of tokens."""
        return "a" * len(tokens)
