"""Some lines of a file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from shardlint.source.beginning import Spans
from shardlint.source.text import Source


class LineSet:
    """Lines by number, from 1: ranges of them, each from the first to the last, in the order of the text."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = tuple(ranges)
        self._firsts = [first for first, _ in self._ranges]

    def hold(self, line: int) -> bool:
        """Whether a line is among them."""
        place = bisect_right(self._firsts, line) - 1
        return place >= 0 and line <= self._ranges[place][1]

    def spans(self, source: Source) -> Spans:
        """Their characters."""
        starts, end = source.line_starts, len(source.text)
        return tuple(
            (starts[first - 1], starts[last] if last < len(starts) else end) for first, last in self._ranges
        )


class _Every(LineSet):
    def __init__(self) -> None:
        super().__init__(())

    def hold(self, line: int) -> bool:
        return True

    def spans(self, source: Source) -> Spans:
        return ((0, len(source.text)),)


EVERY = _Every()
"""All lines."""
