"""Lines that stand below an opening bracket, moved with it where a fix moved it. The program stays what it is."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator, Sequence

from shardlint.rewrite.edits import Layer, forward_through, same_program
from shardlint.rules_api.rule import Edit
from shardlint.source.text import Source

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def align_layer(before: Source, layer: Layer, wraps: Sequence[Layer], after: str) -> Layer:
    """The edits that move lines along with the brackets that `layer` moved; `wraps` are the layers behind it."""
    moved = _moves_by_line(before, layer, wraps, after)
    if not any(by for parts in moved.values() for _, by in parts):
        return Layer(())
    try:
        shifts: dict[int, int] = {}
        for number, by in _line_shifts(after, moved):  # the innermost bracket first
            shifts.setdefault(number, by)
    except (tokenize.TokenError, SyntaxError):
        return Layer(())
    found = Layer.sort_edits(list(_shift_edits(after, shifts)))
    return found if found.edits and same_program(after, found.apply_edits(after)) else Layer(())


def _moves_by_line(
    before: Source, layer: Layer, wraps: Sequence[Layer], after: str
) -> dict[int, list[tuple[int, int]]]:
    """By line, the offsets behind which edits moved the rest of it, and how far."""
    found: dict[int, list[tuple[int, int]]] = {}
    grown = 0
    for edit in sorted(layer.edits, key=lambda one: one.start):
        by = len(edit.text) - (edit.end - edit.start)
        end = edit.start + grown + len(edit.text)
        grown += by
        if "\n" not in edit.text and "\n" not in before.text[edit.start : edit.end]:
            end = forward_through(wraps, end)
            found.setdefault(after.count("\n", 0, end) + 1, []).append((end, by))
    return found


def _line_shifts(text: str, moved: dict[int, list[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    """The lines to move, and how far."""
    starts = [0]
    for one in text.split("\n"):
        starts.append(starts[-1] + len(one) + 1)
    opened: list[tuple[int, int, list[int]]] = []
    first: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _LAYOUT:
            continue
        line, column = token.start
        if line not in first:
            first[line] = column
            if opened and token.string not in _CLOSE:
                opened[-1][2].append(column)
        if token.type != tokenize.OP:
            continue
        if token.string in _OPEN:
            opened.append((line, column, []))
        elif token.string in _CLOSE and opened:
            line, column, directly = opened.pop()
            by = sum(far for end, far in moved.get(line, ()) if end <= starts[line - 1] + column)
            below = column - by + 1
            if by and directly and min(directly) == below:
                inside = range(line + 1, token.start[0] + 1)
                yield from ((number, by) for number in inside if first.get(number, -1) >= below)


def _shift_edits(text: str, shifts: dict[int, int]) -> Iterator[Edit]:
    start = 0
    for number, line in enumerate(text.split("\n"), 1):
        by = shifts.get(number, 0)
        if by > 0:
            yield Edit(start, start, " " * by)
        elif by < 0 and not line[:-by].strip(" "):
            yield Edit(start, start - by, "")
        start += len(line) + 1
