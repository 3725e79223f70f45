"""Stands in for tqdm, and shows nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class tqdm:
    """Iterates."""

    def __init__(self, iterable: Iterable[Any], **options: Any) -> None:
        self._iterable = iterable
        self.format_dict: dict[str, Any] = {"rate": None}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def set_postfix(self, **values: Any) -> None:
        """Show nothing."""

    def close(self) -> None:
        """End."""


def trange(*limits: int, **options: Any) -> tqdm:
    """Iterates over numbers."""
    return tqdm(range(*limits))
