"""The needs of one file's findings as bits of numbers: which bit stands for which need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from shardlint.syntax.file_edits import noted_file

Need = Path | tuple[str, ...]
"""A file, or a question: its kind and what is asked."""

# More bits than this are not kept for what large sets come to.
_MOST_BITS = 1 << 29


def lookup_key(need: Need) -> str:
    """Return the key to find a need by: the path of the file it was noted of, or its kind."""
    return noted_file(need) or need[0]  # type: ignore[index]


class Bits:
    """Which bit stands for which need. What has none yet is given the next; none is ever taken away.

    An editor keeps them from edit to edit, with what large sets of needs come to.
    """

    def __init__(self, needs: Iterable[Need] = ()) -> None:
        self.needed: tuple[Need, ...] = tuple(needs)
        """Those that have a place, in order, as of the last `settled`."""
        self._at: dict[Need, int] = {need: place for place, need in enumerate(self.needed)}
        self._found_by: dict[str, list[tuple[int, Need]]] = {}
        self._indexed = 0
        self._told: dict[int, int] = {}
        self._told_of: tuple[object, int] | None = None

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[Need]:
        return iter(self._at)

    def bit_of_need(self, need: Need) -> int:
        """The bit of a need, as a number."""
        return 1 << self._at.setdefault(need, len(self._at))

    def number_of_need(self, need: Need) -> int | None:
        """The place of a need, if it has one."""
        return self._at.get(need)

    def needs_by_key(self, name: str) -> list[tuple[int, Need]]:
        """The places of what was noted of a file, by its path, or of the questions of a kind."""
        for place, need in enumerate(islice(self._at, self._indexed, None), self._indexed):
            self._found_by.setdefault(lookup_key(need), []).append((place, need))
        self._indexed = len(self._at)
        return self._found_by.get(name, [])

    def positioned_needs(self) -> tuple[Need, ...]:
        """All that have a place now: the same object as before, where none came."""
        if len(self._at) != len(self.needed):
            self.needed = tuple(self._at)
        return self.needed

    def expanded_set_cache(self, needs: object, numbering: int) -> dict[int, int]:
        """Return a cache of the expanded sets of needs, by their numbers, which callers fill. It is valid for one
        numbering.
        """
        known = self._told_of
        if known is None or known[0] is not needs or known[1] != numbering or len(self) * len(self._told) > _MOST_BITS:
            self._told, self._told_of = {}, (needs, numbering)
        return self._told
