"""Lines of a text that begin as a pattern says: looked for only where a word of the pattern stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import AnyStr, Literal

OnLine = Literal["first", "any", "definition"]
"""Which line of a statement a pattern is for: its first, any, or that of the definition of a function or class."""
Spans = tuple[tuple[int, int], ...]
"""Characters of a text, in its order: from the first of each to behind the last."""


@lru_cache(maxsize=128)
def _compiled(pattern: AnyStr) -> re.Pattern[AnyStr]:
    return re.compile(pattern, re.MULTILINE)


def beginning(
    text: AnyStr, pattern: AnyStr, saying: tuple[AnyStr, ...], spans: Spans | None = None
) -> Iterator[int]:
    """Where a pattern matches from the beginning of a line, blanks aside: a place in each such line, in their order.

    Only lines that hold one of the texts `saying`; all lines where there is none. Trying a pattern at every line of a
    project costs more than all else that is done with most files. One that begins by passing over all of a line but
    comments is searched for instead: where one of the texts stands, with which the rest of it must begin. `spans` are
    the characters of the lines that are looked at, from the first to behind the last; all where there are none.
    """
    anywhere: AnyStr = rb"[^#\n]*" if isinstance(pattern, bytes) else r"[^#\n]*"
    spans = ((0, len(text)),) if spans is None else spans
    if pattern.startswith(anywhere):
        yield from _within(text, pattern[len(anywhere) :], saying, spans)
        return
    newline, blank, end = (
        (b"\n", rb"[ \t]*(?:", rb")") if isinstance(pattern, bytes) else ("\n", r"[ \t]*(?:", r")")
    )
    compiled = _compiled(blank + pattern + end)
    for start in _starts(text, newline, saying, spans):
        if compiled.match(text, start) is not None:
            yield start


def _within(text: AnyStr, pattern: AnyStr, saying: tuple[AnyStr, ...], spans: Spans) -> Iterator[int]:
    """Where a pattern matches in lines, outside of what may be a comment: one place in each."""
    newline, mark = (b"\n", b"#") if isinstance(text, bytes) else ("\n", "#")
    last = -1
    for place in _matching(text, _compiled(pattern), saying, spans):
        start = text.rfind(newline, 0, place) + 1
        if start != last and text.find(mark, start, place) < 0:
            last = start
            yield place


def _matching(
    text: AnyStr, compiled: re.Pattern[AnyStr], saying: tuple[AnyStr, ...], spans: Spans
) -> Iterator[int]:
    for first, end in spans:
        if not saying:
            yield from (found.start() for found in compiled.finditer(text, first, end))
            continue
        places: list[int] = []
        for word in saying:
            at = text.find(word, first, end)
            while at >= 0:
                if compiled.match(text, at) is not None:
                    places.append(at)
                at = text.find(word, at + len(word), end)
        yield from sorted(places)


def _starts(text: AnyStr, newline: AnyStr, words: tuple[AnyStr, ...], spans: Spans) -> list[int]:
    """Where the lines begin that hold one of the words, or all of them where there is none."""
    starts: set[int] = set()
    for first, last in spans:
        if not words:
            breaks: Iterator[re.Match[AnyStr]] = _compiled(newline).finditer(text, first, last - 1)
            starts.update((first, *(found.end() for found in breaks)))
        for word in words:
            at = text.find(word, first, last)
            while at >= 0:
                starts.add(text.rfind(newline, 0, at) + 1)
                end = text.find(newline, at + len(word) - 1)
                at = text.find(word, end, last) if end >= 0 else -1
    return sorted(starts)
