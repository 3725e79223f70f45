"""What is asked of a run, and what comes of it. Nothing here loads the rules, or what reads programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlint.program.needs import Need
    from shardlint.rule import Finding
    from shardlint.sources.text import Source
    from shardlint.targets import Targets


@dataclass(frozen=True)
class Options:
    """What the command line asks for; it wins over the settings."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    harm: tuple[str, ...] = ()
    pedantic: bool = False
    targets: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


class FileReport:
    """The findings of one file, in text order, with the source they point into, which is read when it is asked for."""

    def __init__(self, path: Path, source: Source | None, findings: list[Finding]) -> None:
        self.path = path
        self.findings = findings
        self._source = source

    @property
    def source(self) -> Source:
        """The file's text; empty where it cannot be read."""
        if self._source is None:
            from shardlint.sources.text import Source, Unreadable, decode, read_bytes

            try:
                self._source = decode(self.path, read_bytes(self.path))
            except Unreadable:  # since it was checked
                self._source = Source(self.path, "")
        return self._source


@dataclass
class Run:
    """What a run met. `skipped` are files that were not checked, each with its reason."""

    files: int = 0
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    missing: list[Path] = field(default_factory=list)
    failed: bool = False
    """Whether shardlint itself failed on a file."""


@dataclass
class Report(Run):
    """The result of a check."""

    reports: list[FileReport] = field(default_factory=list)
    find_targets: Callable[[], Targets] | None = None

    @cached_property
    def targets(self) -> Targets | None:
        """The releases that the first of the files was checked for."""
        return self.find_targets() if self.find_targets is not None else None

    def add(self, outcome: Outcome) -> None:
        """Count a file's outcome in."""
        self.files += 1
        self.failed = self.failed or outcome.failed
        if outcome.report is not None:
            self.reports.append(outcome.report)
        if outcome.reason is not None:
            self.skipped.append((outcome.path, outcome.reason))

    @property
    def findings(self) -> int:
        """How many findings there are."""
        return sum(len(report.findings) for report in self.reports)


@dataclass
class Outcome:
    """What came of one file."""

    path: Path
    report: FileReport | None = None
    """None where there is nothing to report."""
    reason: str | None = None
    """Why the file was not checked."""
    failed: bool = False
    """Whether shardlint itself failed on it."""
    quiet: bool = False
    """Whether no word of the file wakes any rule, whatever the releases."""
    needed: tuple[Need, ...] | None = None
    """What it rests on besides the file itself; None where that is not told."""


NOTHING = Outcome(Path())
"""What comes of a file of which there is nothing to say: one for them all, where there are thousands."""
