"""Counts, places and tags of findings as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlint.engine.results import FileReport
    from shardlint.rules_api.rule import Finding


def format_count(number: int, word: str) -> str:
    """ "1 file", "2 files"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def format_tags(finding: Finding) -> str:
    """The harm, and how sure it is."""
    return f"{finding.harm.value}, {finding.certainty.value}"


def format_place(file: FileReport, finding: Finding) -> str:
    """Where a finding is: path, line and column, in a notebook with the cell."""
    cell, line, column = file.source.locate_offset(finding.start)
    return f"{file.path}:{line}:{column}" if cell is None else f"{file.path}:cell {cell}:{line}:{column}"
