"""Lines of a text that begin as a pattern says: looked for only where a word of the pattern stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import AnyStr, Literal

OnLine = Literal["first", "any", "definition"]
"""Which line of a statement a pattern is for: its first, any, or that of the definition of a function or class."""


@lru_cache(maxsize=128)
def _compiled(pattern: AnyStr) -> re.Pattern[AnyStr]:
    return re.compile(pattern, re.MULTILINE)


def beginning(text: AnyStr, pattern: AnyStr, saying: tuple[AnyStr, ...]) -> Iterator[int]:
    """Where a pattern matches from the beginning of a line, blanks aside: a place in each such line, in their order.

    Only lines that hold one of the texts `saying`; all lines where there is none. Trying a pattern at every line of a
    project costs more than all else that is done with most files. One that begins by passing over all of a line but
    comments is searched for instead: where one of the texts stands, with which the rest of it must begin.
    """
    anywhere: AnyStr = rb"[^#\n]*" if isinstance(pattern, bytes) else r"[^#\n]*"
    if pattern.startswith(anywhere):
        yield from _within(text, pattern[len(anywhere) :], saying)
        return
    newline, blank, end = (
        (b"\n", rb"[ \t]*(?:", rb")") if isinstance(pattern, bytes) else ("\n", r"[ \t]*(?:", r")")
    )
    compiled = _compiled(blank + pattern + end)
    for start in _starts(text, newline, saying):
        if compiled.match(text, start) is not None:
            yield start


def _within(text: AnyStr, pattern: AnyStr, saying: tuple[AnyStr, ...]) -> Iterator[int]:
    """Where a pattern matches in lines, outside of what may be a comment: one place in each."""
    newline, mark = (b"\n", b"#") if isinstance(text, bytes) else ("\n", "#")
    last = -1
    for place in _matching(text, _compiled(pattern), saying):
        start = text.rfind(newline, 0, place) + 1
        if start != last and text.find(mark, start, place) < 0:
            last = start
            yield place


def _matching(text: AnyStr, compiled: re.Pattern[AnyStr], saying: tuple[AnyStr, ...]) -> Iterator[int]:
    if not saying:
        yield from (found.start() for found in compiled.finditer(text))
        return
    places: list[int] = []
    for word in saying:
        at = text.find(word)
        while at >= 0:
            if compiled.match(text, at) is not None:
                places.append(at)
            at = text.find(word, at + len(word))
    yield from sorted(places)


def _starts(text: AnyStr, newline: AnyStr, words: tuple[AnyStr, ...]) -> list[int]:
    """Where the lines begin that hold one of the words, or all of them where there is none."""
    if not words:
        return [0, *(found.end() for found in _compiled(newline).finditer(text))]
    starts: set[int] = set()
    for word in words:
        at = text.find(word)
        while at >= 0:
            starts.add(text.rfind(newline, 0, at) + 1)
            end = text.find(newline, at + len(word) - 1)
            at = text.find(word, end) if end >= 0 else -1
    return sorted(starts)
