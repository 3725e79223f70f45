"""Where words stand in a text, and on which lines some statements begin, found without parsing."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property

from shardlint.source.patterns import compile_lazily
from shardlint.source.text import Source

_IDENTIFIER = compile_lazily(r"\w+")
_ASKED_BEFORE_INDEX = 200
_GLOBAL = compile_lazily(r"global\b([^\n#;]*)")
_HEADER_END = compile_lazily(r":[ \t]*(?:#[^\n]*)?\n")
# A compound statement begins its line.
_WITH = compile_lazily(r"^[ \t\f]*(?:async[ \t]+)?with\b", re.MULTILINE)
_CALLED = compile_lazily(r"\n[ \t]*+((?:\w++\.)*+(\w++)\()")
_DEFINITION = compile_lazily(r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_BINDS = compile_lazily(r"[ \t]*(?:(?:async[ \t]+)?def[ \t]+(\w+)|(?:\w+\.)?(\w+)(?:[ \t]*:[^=\n]*)?[ \t]*=[^=])")
_ROUNDS = 3  # what is bound with a call, what is bound with that, and what with that
_OF_NAMES = compile_lazily(r"[\s(]+[\w.]+\s*(?:as\b|[:,)\\])")


class Words:
    """The words of one text."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._said: dict[str, bool] = {}
        self._lines: dict[str, set[int]] = {}

    def contains_text(self, text: str) -> bool:
        """Return whether a text occurs anywhere; searched once."""
        if text not in self._said:
            self._said[text] = text in self._source.text
        return self._said[text]

    def lines_with_word(self, word: str) -> set[int]:
        """The lines that hold a word. Once many words have been asked for, an index pays."""
        if word not in self._lines:
            self._lines[word] = self._find_lines(word)
        return self._lines[word]

    def _find_lines(self, word: str) -> set[int]:
        few = len(self._lines) < _ASKED_BEFORE_INDEX
        if few or not _IDENTIFIER.fullmatch(word) or self.contains_text("\r"):
            return {self._source.position_of(start)[0] for start in _word_places(self._source.text, word)}
        return self._words_by_line.get(word, set())

    @cached_property
    def _words_by_line(self) -> dict[str, set[int]]:
        index: dict[str, set[int]] = {}
        for number, line in enumerate(self._source.text.split("\n"), 1):
            for word in _IDENTIFIER.findall(line):
                index.setdefault(word, set()).add(number)
        return index

    def says_between(self, first: int, last: int, texts: tuple[str, ...]) -> bool:
        """Return whether one of the texts occurs on some lines."""
        starts, text = self._source.line_starts, self._source.text
        begin, end = starts[first - 1], starts[last] if last < len(starts) else len(text)
        return any(text.find(one, begin, end) >= 0 for one in texts)

    def with_lines(self, word: str) -> Iterator[int]:
        """The lines of `with` headers that hold a word, in capitals or not, or that enter what a name is."""
        text = self._source.text
        for match in _WITH.finditer(text):
            end = _HEADER_END.search(text, match.end())
            header = text[match.end() : end.end() if end is not None else len(text)]
            if word in header.lower() or _OF_NAMES.match(header):
                yield self._source.position_of(match.end())[0]

    @cached_property
    def call_lines(self) -> list[tuple[int, str]]:
        """The lines that begin with a call, each with the name of what it calls, in small letters."""
        found = _CALLED.finditer("\n" + self._source.text)
        return [(self._source.position_of(match.start(1) - 1)[0], match[2].lower()) for match in found]

    @cached_property
    def rebound_globals(self) -> frozenset[str]:
        """Names that some function declares `global`."""
        return rebound_globals(self._source.text)


def rebound_globals(text: str) -> frozenset[str]:
    """Names that some function of a text declares `global`."""
    names: set[str] = set()
    for found in _GLOBAL.finditer(text):
        before = text.rfind("\n", 0, found.start()) + 1
        if text[before : found.start()].rstrip(" \t")[-1:] in ("", ":", ";"):
            names.update(name.strip() for name in found[1].split(","))
    return frozenset(names)


def names_bound_to_calls(text: str, calls: Iterable[str]) -> frozenset[str]:
    """Names that a text may bind with what some calls give (`f(`), and with what is bound so: by its lines alone.

    These are the names that a line with such a call binds, and the functions that it may lie in, by its indentation.
    """
    words = [call.removesuffix("(") for call in calls if call in text]
    if not words:
        return frozenset()
    definitions = [(one.start(), len(one[1].expandtabs()), one[2]) for one in _DEFINITION.finditer(text)]
    found: set[str] = set()
    for turn in range(_ROUNDS):
        new: set[str] = set()
        for word in words:
            for start in _word_places(text, word):
                if turn == 0 and text[start + len(word) : start + len(word) + 1] != "(":
                    continue
                begin = text.rfind("\n", 0, start) + 1
                binds = _BINDS.match(text, begin)
                new.update(filter(None, binds.groups()) if binds is not None else ())
                line = text[begin:start].expandtabs()
                new.update(_functions_around(definitions, begin, len(line) - len(line.lstrip())))
        words = sorted(new - found)
        found |= new
    return frozenset(found)


def _functions_around(definitions: list[tuple[int, int, str]], begin: int, indent: int) -> Iterator[str]:
    """The functions around a line that begins there, innermost first."""
    for at in range(bisect_left(definitions, (begin,)) - 1, -1, -1):
        _, outer, name = definitions[at]
        if outer < indent:
            indent = outer
            yield name
            if not outer:
                return


def _word_places(text: str, name: str) -> Iterator[int]:
    """Where a word stands on its own. `str.find` is some ten times faster than a pattern with word boundaries."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            yield start
        start = text.find(name, end)
