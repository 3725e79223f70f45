"""Lines of a text that begin as a pattern says: looked for only where a word of the pattern stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, cached_property, lru_cache
from typing import Literal

from shardlint.source.patterns import compile_lazily

OnLine = Literal["first", "any", "definition"]
"""Which line of a statement a pattern is for: its first, any, or that of the definition of a function or class."""
_ANYTHING = rb"[^#\n]*"
_MARK = "\ufeff".encode()
_NEWLINE = compile_lazily(rb"\r\n|\r|\n")


@lru_cache(maxsize=128)
def _compile_pattern(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.MULTILINE)


@cache
def _shortest_words(words: tuple[bytes, ...]) -> list[bytes]:
    """Those of some words that hold no other one: a line with a longer one holds a shorter one too."""
    return [word for word in words if not any(other in word and other != word for other in words)]


class Beginnings:
    """How the lines of one text begin. What is looked for is found once, for whoever asks next."""

    def __init__(self, data: bytes) -> None:
        # A mark at the beginning is no part of the first line.
        self._data = data.replace(_MARK, b" " * len(_MARK), 1) if data.startswith(_MARK) else data
        self._places: dict[bytes, list[int]] = {}
        self._starts: dict[bytes, list[int]] = {}
        self._found: dict[tuple[bytes, tuple[bytes, ...]], list[int]] = {}
        self._lines: dict[tuple[bytes, tuple[bytes, ...]], list[int]] = {}

    def match_positions(self, pattern: bytes, saying: tuple[bytes, ...]) -> list[int]:
        """Where a pattern matches from the beginning of a line, blanks aside: a place in each such line, in order.

        Only lines that hold one of the texts `saying`; all lines where there is none. Trying a pattern at every line
        of a project costs more than all else that is done with most files. One that begins by passing over all of a
        line but comments is searched for instead: where one of the texts stands, with which the rest of it must begin.
        """
        key = pattern, saying
        if key not in self._found:
            if pattern.startswith(_ANYTHING):
                self._found[key] = self._matches_in_lines(_compile_pattern(pattern[len(_ANYTHING) :]), saying)
            else:
                match, data = _compile_pattern(rb"[ \t]*(?:" + pattern + rb")").match, self._data
                self._found[key] = [
                    start for start in self._lines_with_any(saying) if match(data, start) is not None
                ]
        return self._found[key]

    def match_lines(self, pattern: bytes, saying: tuple[bytes, ...]) -> list[int]:
        """The numbers of those lines, from 1."""
        key = pattern, saying
        if key not in self._lines:
            starts = self._line_starts
            self._lines[key] = [bisect_right(starts, place) for place in self.match_positions(pattern, saying)]
        return self._lines[key]

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in _NEWLINE.finditer(self._data))]

    def _matches_in_lines(self, compiled: re.Pattern[bytes], saying: tuple[bytes, ...]) -> list[int]:
        """Where a pattern matches in lines, outside of what may be a comment: one place in each."""
        data, match = self._data, compiled.match
        if saying:
            said = (place for word in saying for place in self._places_of_word(word))
            places = sorted(place for place in said if match(data, place) is not None)
        else:
            places = [found.start() for found in compiled.finditer(data)]
        found = []
        end = -1
        for place in places:
            if place > end:
                start = data.rfind(b"\n", 0, place) + 1
                if data.find(b"#", start, place) < 0:
                    found.append(place)
                    end = data.find(b"\n", place)
                    if end < 0:
                        break
        return found

    def _places_of_word(self, word: bytes) -> list[int]:
        """Where a text stands."""
        found = self._places.get(word)
        if found is None:
            find, found = self._data.find, []
            at = find(word)
            while at >= 0:
                found.append(at)
                at = find(word, at + len(word))
            self._places[word] = found
        return found

    def _lines_with_any(self, words: tuple[bytes, ...]) -> list[int]:
        """Where the lines begin that hold one of some texts, or all of them where there is none."""
        if not words:
            return [0, *(found.end() for found in re.finditer(rb"\n(?!\Z)", self._data))]
        if len(words) == 1:
            return self._lines_with_word(words[0])
        return sorted({start for word in _shortest_words(words) for start in self._lines_with_word(word)})

    def _lines_with_word(self, word: bytes) -> list[int]:
        """Where the lines begin that hold a text."""
        found = self._starts.get(word)
        if found is None:
            data, found = self._data, []
            at = data.find(word)
            while at >= 0:
                found.append(data.rfind(b"\n", 0, at) + 1)
                end = data.find(b"\n", at + len(word) - 1)
                at = data.find(word, end) if end >= 0 else -1
            self._starts[word] = found
        return found
