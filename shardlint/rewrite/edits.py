"""Edits to a text: which of them go together, the text they make, and where its places were before."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from shardlint.rules_api.rule import Edit, Finding
from shardlint.source.lazy import dataclass


@dataclass(frozen=True)
class Layer:
    """Edits made at once, in text order, none over another."""

    edits: tuple[Edit, ...]

    @staticmethod
    def sort_edits(edits: Iterable[Edit]) -> Layer:
        """The edits in order."""
        return Layer(tuple(sorted(edits, key=lambda edit: (edit.start, edit.end, edit.text))))

    def apply_edits(self, text: str) -> str:
        """The text with the edits made."""
        parts = []
        end = 0
        for edit in self.edits:
            parts += [text[end : edit.start], edit.text]
            end = edit.end
        return "".join([*parts, text[end:]])

    def new_start(self, edit: Edit) -> int:
        """Where the text of one of the edits begins afterwards."""
        return edit.start + sum(
            len(one.text) - (one.end - one.start) for one in self.edits if one.start < edit.start
        )

    def map_forward(self, offset: int) -> int:
        """Where what begins at an offset begins afterwards: what was replaced begins where the new text does."""
        shift = 0
        for edit in self.edits:
            if edit.start > offset:
                break
            if edit.start <= offset < edit.end:
                return edit.start + shift
            shift += len(edit.text) - (edit.end - edit.start)
        return offset + shift

    def map_back(self, offset: int) -> int:
        """Where what begins at an offset afterwards began: new text began where the old text did."""
        shift = 0
        for edit in self.edits:
            start = edit.start + shift
            if start > offset:
                break
            if start <= offset < start + len(edit.text):
                return edit.start
            shift += len(edit.text) - (edit.end - edit.start)
        return offset - shift


def same_program(one: str, two: str) -> bool:
    """Return whether two texts parse to the same tree, so that they differ in layout alone."""
    try:
        trees = [ast.dump(ast.parse(text.removeprefix("\ufeff"))) for text in (one, two)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return trees[0] == trees[1]


def forward_through(layers: Sequence[Layer], offset: int) -> int:
    """Through several layers, the first one first."""
    for layer in layers:
        offset = layer.map_forward(offset)
    return offset


def back_through(layers: Sequence[Layer], offset: int) -> int:
    """The other way, the last one first."""
    for layer in reversed(layers):
        offset = layer.map_back(offset)
    return offset


def choose_disjoint_fixes(findings: Iterable[Finding]) -> tuple[list[Finding], Layer]:
    """Of findings with fixes those whose edits do not overlap, each whole or not at all, and the edits."""
    chosen: list[Finding] = []
    edits: dict[tuple[int, int, str], Edit] = {}
    for finding in findings:
        if finding.fix is None:
            continue
        new = {(edit.start, edit.end, edit.text): edit for edit in finding.fix.edits}
        if any(
            _are_overlapping(one, two) for one in new.values() for key, two in edits.items() if key not in new
        ):
            continue  # the next round gets it
        edits.update(new)
        chosen.append(finding)
    return chosen, Layer.sort_edits(edits.values())


def _are_overlapping(one: Edit, two: Edit) -> bool:
    if one.start == one.end == two.start == two.end:
        return one.text != two.text and not (_is_import(one) and _is_import(two))
    return one.start < two.end and two.start < one.end


def _is_import(edit: Edit) -> bool:
    return edit.text.lstrip("\r\n").startswith(("import ", "from "))
