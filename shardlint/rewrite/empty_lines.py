"""Where two fixes meet that each brought empty lines: no more of them than one would have left."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from shardlint.rewrite.edits import Layer, same_program
from shardlint.rules_api.rule import Edit
from shardlint.source.text import Source

_MOST, _MOST_INSIDE = 2, 1
"""Empty lines between definitions at the top of a file, and in a block."""


def space_layer(before: Source, layer: Layer, after: str) -> Layer:
    """The edits that take away the empty lines which are there twice."""
    if "\r" in after.replace("\r\n", ""):
        return Layer(())
    found = Layer.sort_edits(_doubled_blank_lines(before, layer, after))
    return found if found.edits and same_program(after, found.apply_edits(after)) else Layer(())


def _doubled_blank_lines(before: Source, layer: Layer, after: str) -> Iterator[Edit]:
    shift = 0
    for one, two in pairwise(layer.edits):
        shift += len(one.text) - (one.end - one.start)
        if before.text[one.end : two.start].strip() or not (_ends_empty(one.text) and _begins_empty(two.text)):
            continue
        at = two.start + shift
        start = len(after[:at].rstrip())
        end = at + len(after[at:]) - len(after[at:].lstrip())
        line = after.rfind("\n", start, end) + 1
        indent = after[line:end]
        kept = before.common_newline * (1 + (_MOST_INSIDE if indent else _MOST))
        if after.count("\n", start, line) > kept.count("\n"):
            yield Edit(start, line, kept)


def _ends_empty(text: str) -> bool:
    return text[len(text.rstrip()) :].count("\n") > 1


def _begins_empty(text: str) -> bool:
    return "\n" in text[: len(text) - len(text.lstrip())]
