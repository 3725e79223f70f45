"""einshard's expressions: `x y -> x y*`, parsed as einshard 0.2.0 parses them, with the place of each element."""

from __future__ import annotations

import unicodedata

from shardlint.source.lazy import dataclass


@dataclass(frozen=True)
class Element:
    """One element of a side: `name`, `name4`, `name*`, `name2*`, `4`, `*` or `...`, and where it stands.

    `name` is None for an element that only replicates. A starred element takes `count` times what is left over.
    """

    name: str | None
    count: int
    starred: bool
    ellipsis: bool
    start: int
    end: int

    @property
    def splits(self) -> bool:
        """Whether it takes more than one device (a star does, wherever there is more than one)."""
        return self.starred or self.count > 1


@dataclass(frozen=True)
class Expression:
    """Both sides of an expression."""

    left: tuple[Element, ...]
    right: tuple[Element, ...]

    @property
    def elided(self) -> bool:
        """Whether the left side has an ellipsis."""
        return any(element.ellipsis for element in self.left)

    @property
    def stars(self) -> int:
        """How many elements take what is left over."""
        return sum(element.starred for element in self.right)

    def fixed(self) -> int:
        """How many devices the counts without a star take."""
        product = 1
        for element in self.right:
            product *= 1 if element.starred else element.count
        return product

    def taken(self, name: str) -> Element | None:
        """The element of the right side that says how a dimension is split: of several, the last."""
        return next((element for element in reversed(self.right) if element.name == name), None)


@dataclass(frozen=True)
class Fault:
    """What is wrong with an expression, and where: character offsets in it."""

    start: int
    end: int
    text: str


def parse(text: str) -> Expression | Fault:
    """An expression, or the first place that cannot be parsed."""
    left, at = _elements(text, _skipped(text, 0), _left)
    if not left:
        return _stuck(text, at, "an axis name or `...` belongs here")
    if not text.startswith("->", at):
        if "->" not in text:
            return Fault(at, max(len(text), at + 1), "there is no `->`")
        return _stuck(text, at, "the left side is names of letters and `_`, separated by spaces")
    right, at = _elements(text, _skipped(text, at + 2), _right)
    if not right:
        return _stuck(text, at, "nothing stands right of `->`")
    if at < len(text):
        return _stuck(text, at, "an element is a name, then a count, then `*`, and spaces separate elements")
    for element in right:
        digits = text[element.start : element.end].rstrip("*")[len(element.name or "") :]
        if digits and not element.ellipsis and not digits.isdecimal():
            return Fault(element.start, element.end, "the count is not a decimal number")
    return Expression(left, right)


def _elements(text: str, at: int, one: _Reader) -> tuple[tuple[Element, ...], int]:
    """Elements separated by spaces, and the place after the spaces behind them."""
    found: list[Element] = []
    while (element := one(text, at)) is not None:
        found.append(element)
        after = _skipped(text, element.end)
        if after == element.end:
            return tuple(found), after
        at = after
    return tuple(found), at


class _Reader:
    """Reads one element of a side."""

    def __init__(self, counts: bool) -> None:
        self.counts = counts

    def __call__(self, text: str, start: int) -> Element | None:
        at = start
        while at < len(text) and (text[at] == "_" or unicodedata.category(text[at])[0] == "L"):
            at += 1
        name, count, starred = text[start:at] or None, 1, False
        if self.counts:
            digits = at
            while at < len(text) and text[at].isdigit() and (at > digits or text[at] != "0"):
                at += 1
            number = text[digits:at]
            count = int(number) if number.isdecimal() else 1
            starred = text.startswith("*", at)
            at += starred
        if at > start:
            return Element(name, count, starred, False, start, at)
        return Element(None, 1, False, True, start, start + 3) if text.startswith("...", start) else None


_left, _right = _Reader(counts=False), _Reader(counts=True)


def _skipped(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _stuck(text: str, at: int, why: str) -> Fault:
    end = at + 2 if text.startswith("->", at) else at
    while end < len(text) and not text[end].isspace() and not text.startswith("->", end):
        end += 1
    return Fault(at, max(end, at + 1), why)
