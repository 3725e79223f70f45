"""Findings as the formats of CI systems want them: one row each, with a level, a lasting name and what to write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from shardlint.engine.fingerprint import finding_fingerprints
from shardlint.output.printable import as_sentence
from shardlint.rules_api.registry import page_address
from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.engine.results import FileReport, Report
    from shardlint.rules_api.rule import Finding


@dataclass(frozen=True)
class Row:
    """One finding. Lines and columns count from 1, columns in characters.

    In a notebook they are those of the file as far as it is known: its first line, for tools that know no cells.
    """

    file: FileReport
    finding: Finding
    path: str
    fingerprint: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def rule_code(self) -> str:
        """The rule's code."""
        return self.finding.rule.code

    @property
    def severity_level(self) -> str:
        """How bad it is: error, warning, or note for what is only possible."""
        if self.finding.certainty.value == "possible":
            return "note"
        return "warning" if self.finding.harm.is_mild else "error"

    @property
    def rule_title(self) -> str:
        """The rule, for a heading."""
        return f"{self.rule_code} {self.finding.rule.name}"

    @property
    def message(self) -> str:
        """Return the message, with the cell if there is one."""
        finding = self.finding
        cell, line, column = self.file.source.locate_offset(finding.start)
        where = "" if cell is None else f"cell {cell}:{line}:{column}: "
        return f"{where}{finding.message}".strip() or self.rule_title

    @property
    def advice(self) -> str:
        """Return the advice, if there is any."""
        text = self.finding.advice
        return as_sentence(text) if text else ""

    @property
    def full_text(self) -> str:
        """Return the message, the reason and the advice."""
        why = f"Why: {self.finding.why}" if self.finding.why else ""
        return "\n".join(filter(None, (self.message, why, self.advice)))

    @property
    def rule_page_address(self) -> str:
        """The address of the rule's page; empty where its pack says none."""
        return page_address(self.rule_code)

    @property
    def file_uri(self) -> str:
        """The file as a relative reference or a URI."""
        return path_uri(self.path)


def finding_rows(report: Report) -> Iterator[Row]:
    """All findings of a report, in its order."""
    for file in report.reports:
        path = relative_path(file.path)
        for finding, name in zip(file.findings, finding_fingerprints(file, path), strict=True):
            yield Row(file, finding, path, name, *row_span(file, finding.start, finding.end))


def row_span(file: FileReport, start: int, end: int) -> tuple[int, int, int, int]:
    """First line and column, last line and the column after the last character."""
    source = file.source
    if source.in_cells:
        return 1, 1, 1, 1
    return *source.position_of(start), *source.position_of(end)


def relative_path(path: Path) -> str:
    """A path from the current folder, where it is below it: what CI systems take for one of the repository."""
    try:
        below = os.path.relpath(path)
    except (OSError, ValueError):  # the current folder is gone, or on another drive
        return path.as_posix()
    return path.as_posix() if os.pardir in Path(below).parts else Path(below).as_posix()


def path_uri(path: str) -> str:
    """A path as a relative reference, or as the URI of a file if it is absolute."""
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


def left_out(report: Report) -> Iterator[tuple[str, str]]:
    """Paths of files that were not checked, or not by every rule, each with the reason."""
    for path, reason in report.skipped:
        yield relative_path(path), f"not checked: {reason}"
    for path, fault in report.faults:
        yield relative_path(path), f"not complete: {fault.reason}"
    for path in report.missing:
        yield relative_path(path), "no such file or directory"
