"""Options and results of a run. The module loads neither the rules nor the program model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.config.certainty import Certainty
    from shardlint.config.targets import Targets
    from shardlint.engine.groups import Record
    from shardlint.model.bits import Need
    from shardlint.rules_api.rule import Finding
    from shardlint.source.find import FileSelection
    from shardlint.source.text import Source


@dataclass(frozen=True)
class Options:
    """Options of the command line, which take precedence over the settings."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    harm: tuple[str, ...] = ()
    certainty: Certainty | None = None
    """The least certainty to report; None: as the settings say."""
    targets: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    """Rules besides those that are selected."""
    config: Path | None = None
    """The settings file to use for all files, in place of the nearest."""


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
            from shardlint.source.decoding import decode_file
            from shardlint.source.text import Source, Unreadable, read_bytes

            try:
                self._source = decode_file(self.path, read_bytes(self.path))
            except Unreadable:  # since it was checked
                self._source = Source(self.path, "")
        return self._source

    def select_findings(self, findings: list[Finding]) -> FileReport:
        """The same of some of its findings."""
        return FileReport(self.path, self._source, findings)


@dataclass
class Run:
    """Summary of a run. `files` counts the files read, or tried. `skipped` are the files not checked, each with its
    reason.
    """

    files: int = 0
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    missing: list[Path] = field(default_factory=list)
    excluded: int = 0
    """How many of the skipped ones the settings leave out, as they were asked to."""
    left_out: bool = False
    """Whether the settings leave out something in the folders too."""
    incomplete: bool = False
    """Whether a file that was named could not be checked."""
    faults: list[tuple[Path, Fault]] = field(default_factory=list)
    """Rules that failed in files, which were checked by the others."""
    failed: bool = False
    """Whether shardlint itself, or a rule, failed on a file."""
    root: Callable[[Path], str] = lambda path: ""
    """The folder of the project that a file is in."""

    @property
    def reason_for_no_files(self) -> str:
        """Why no file was read, for people."""
        return "the settings exclude every Python file" if self.left_out else "no Python files found"

    @property
    def is_incomplete(self) -> bool:
        """True if something that was asked for was not done: a run without findings is no success then."""
        nothing = not self.files and not self.excluded
        return bool(self.missing) or self.failed or self.incomplete or nothing

    def passed_by(self, file_selection: FileSelection) -> None:
        """Count in what was met and is not to be read."""
        self.missing += file_selection.missing
        self.skipped += [*file_selection.refused, *file_selection.excluded, *file_selection.skipped]
        self.excluded += len(file_selection.excluded)
        self.left_out = self.left_out or file_selection.left_out
        self.incomplete = self.incomplete or bool(file_selection.refused)


@dataclass
class Report(Run):
    """The result of a check."""

    reports: list[FileReport] = field(default_factory=list)
    concerned: list[Path] = field(default_factory=list)
    """The files in which something was looked for: what is said of them holds for the releases of their projects."""
    unread: int = 0
    """How many of the files could not be checked."""
    known: int = 0
    """How many findings are in a baseline, and so not reported."""
    baselines: list[Path] = field(default_factory=list)
    gone: int = 0
    """How many entries of baselines stand for nothing any more."""
    shrunk: bool = False
    """Whether a baseline lost them just now."""
    since: str | None = None
    """The revision that the files changed since, where only these were asked for."""
    elsewhere: int = 0
    """How many of the findings are in files that were not named, and rest on those that were."""
    find_targets: Callable[[Iterable[Path] | None], Mapping[str, Targets]] = lambda paths: {}
    """The projects that files are in (None: all files of the run) by their folders, and the releases of each."""

    @cached_property
    def targets(self) -> Mapping[str, Targets]:
        """The releases that each project was checked for, by its folder."""
        return self.find_targets(None)

    def add_outcome(self, path: Path, outcome: Outcome) -> None:
        """Count a file's outcome in."""
        self.files += 1
        self.failed = self.failed or outcome.failed
        self.faults += [(outcome.path, fault) for fault in outcome.faults]
        if outcome.report is not None:
            self.reports.append(outcome.report)
        if not outcome.quiet and outcome.reason is None:
            self.concerned.append(path)
        if outcome.reason is not None:
            self.skipped.append((outcome.path, outcome.reason))
            self.unread += 1

    @property
    def checked_count(self) -> int:
        """How many files were checked."""
        return self.files - self.unread

    @property
    def finding_count(self) -> int:
        """How many findings there are."""
        return sum(len(report.findings) for report in self.reports)


class Fault(NamedTuple):
    """A rule that failed in a file: only what it would find there is missing."""

    code: str
    reason: str


@dataclass
class Outcome:
    """Result of checking one file."""

    path: Path
    report: FileReport | None = None
    """None where there is nothing to report."""
    reason: str | None = None
    """Why the file was not checked."""
    failed: bool = False
    """Whether shardlint itself, or a rule, failed on it."""
    faults: tuple[Fault, ...] = ()
    """The rules that failed."""
    quiet: bool = False
    """Whether no word of the file triggers any rule, whatever the releases."""
    needed: tuple[Need, ...] | None = None
    """What it rests on besides the file itself; None where that is not told."""
    record: Record | None = None
    """What was found in each part of it, for the next look."""


NOTHING = Outcome(Path())
"""What comes of a file of which there is nothing to say: one for them all, where there are thousands."""
QUIET = Outcome(Path(), quiet=True)
"""The same of a file in which there is nothing to look for."""
