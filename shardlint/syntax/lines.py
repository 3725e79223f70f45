"""Some lines of a file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class LineSet:
    """Lines by number, from 1: ranges of them, each from the first to the last, in the order of the text."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = tuple(ranges)
        self._firsts = [first for first, _ in self._ranges]

    def contains_line(self, line: int) -> bool:
        """Return whether a line is in the set."""
        place = bisect_right(self._firsts, line) - 1
        return place >= 0 and line <= self._ranges[place][1]


class _Every(LineSet):
    def __init__(self) -> None:
        super().__init__(())

    def contains_line(self, line: int) -> bool:
        return True


EVERY = _Every()
"""All lines."""
