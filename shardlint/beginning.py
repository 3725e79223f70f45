"""Lines of a text that begin as a pattern says: looked for only where a word of the pattern stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import AnyStr


@lru_cache(maxsize=128)
def _compiled(pattern: AnyStr) -> re.Pattern[AnyStr]:
    blank, end = (rb"[ \t]*(?:", rb")") if isinstance(pattern, bytes) else (r"[ \t]*(?:", r")")
    return re.compile(blank + pattern + end, re.MULTILINE)


def beginning(text: AnyStr, pattern: AnyStr, saying: tuple[AnyStr, ...]) -> Iterator[int]:
    """Where a pattern matches from the beginning of a line, blanks aside: a place in each such line, in their order.

    Only lines that hold one of the texts `saying`; all lines where there is none. Trying a pattern at every line of a
    project costs more than all else that is done with most files. One that begins by passing over all of a line but
    comments is searched for instead.
    """
    anywhere: AnyStr = rb"[^#\n]*" if isinstance(pattern, bytes) else r"[^#\n]*"
    if pattern.startswith(anywhere):
        yield from _within(text, pattern[len(anywhere) :])
        return
    newline: AnyStr = b"\n" if isinstance(text, bytes) else "\n"
    compiled = _compiled(pattern)
    for start in sorted(_starts(text, newline, saying)):
        if compiled.match(text, start) is not None:
            yield start


def _within(text: AnyStr, pattern: AnyStr) -> Iterator[int]:
    """Where a pattern matches in lines, outside of what may be a comment."""
    newline, mark = (b"\n", b"#") if isinstance(text, bytes) else ("\n", "#")
    compiled = re.compile(pattern, re.MULTILINE)
    found = compiled.search(text)
    while found is not None:
        start = text.rfind(newline, 0, found.start()) + 1
        if text.find(mark, start, found.start()) < 0:
            yield found.start()
        end = text.find(newline, found.start())
        found = compiled.search(text, end) if end >= 0 else None


def _starts(text: AnyStr, newline: AnyStr, words: tuple[AnyStr, ...]) -> set[int]:
    """Where the lines begin that hold one of the words."""
    starts: set[int] = set()
    for word in words or (newline,):
        at = text.find(word)
        while at >= 0:
            starts.add(text.rfind(newline, 0, at) + 1 if words else at + 1)
            end = text.find(newline, at + len(word) - 1) if words else at + 1
            at = text.find(word, end) if end >= 0 else -1
    return starts if words else starts | {0}
