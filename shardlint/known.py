"""What of a report is in the baselines of its projects is taken out of it, and what is gone out of the baselines."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.certainty import Certainty, least

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shardlint.baseline import Entry, Matched
    from shardlint.outcome import FileReport, Options, Report
    from shardlint.places import Places
    from shardlint.sources.find import Found

NAME = ".shardlint-baseline.json"


@dataclass
class Known:
    """The baseline of one project, and the files of the project that a run looked at."""

    file: Path
    base: Path
    least: Certainty
    files: set[str] = field(default_factory=set)
    """Absolute paths, links followed."""
    reports: list[FileReport] = field(default_factory=list)
    entries: list[Entry] | None = None
    matched: Matched | None = None


def projects(report: Report, found: Found, options: Options, places: Places) -> dict[str, Known]:
    """The projects of a run by their roots, each with its baseline."""
    known: dict[str, Known] = {}
    folders: dict[str, Known] = {}
    for met in found.met:
        folder = os.path.dirname(met.real)  # noqa: PTH120 - of every file of a run
        if folder not in folders:
            root = places.root(folder)
            if root not in known:
                settings = places.settings(folder)
                named = settings.baseline
                file = settings.folder / named if named else Path(root, NAME)
                known[root] = Known(file, file.parent.resolve(), least(options, settings))
            folders[folder] = known[root]
        folders[folder].files.add(met.real)
    for one in report.reports:
        folders[os.path.dirname(os.path.realpath(one.path))].reports.append(one)  # noqa: PTH120
    return known


def compare(project: Known, report: Report, whole: bool) -> Matched:
    """Compare a project's findings with its baseline.

    `whole` says that all rules were run, so that what was not found is not there.
    """
    from shardlint.baseline import load, match

    project.entries = load(project.file)
    undone = {os.path.realpath(path) for path, _ in (*report.skipped, *report.faults)}
    checked = project.files - undone

    def looked(entry: Entry) -> bool:
        sure = entry.certainty in list(Certainty) and Certainty(entry.certainty).meets(project.least)
        return whole and sure and os.path.realpath(project.base / entry.path) in checked

    project.matched = match(project.entries or [], project.reports, project.base, looked)
    return project.matched


def all_rules(options: Options) -> bool:
    """Whether a run looks for all that the settings ask for."""
    return not (options.select or options.ignore or options.harm or options.targets)


def leave_out(
    report: Report, found: Found, options: Options, places: Places, partly: frozenset[str] = frozenset()
) -> None:
    """Take out of a report what is known. Baselines lose what is gone, except in CI, where nobody would keep that.

    Of the files `partly` only some findings are in the report: nothing of them is taken to be gone.
    """
    for project in projects(report, found, options, places).values():
        if not project.file.is_file():
            continue
        project.files -= partly
        matched = compare(project, report, all_rules(options))
        report.known += matched.known
        report.baselines.append(project.file)
        report.gone += len(matched.gone)
        replaced = {id(file): findings for file, findings in matched.new}
        mine = {id(file) for file in project.reports}
        report.reports = [
            file.of(replaced[id(file)]) if id(file) in replaced else file
            for file in report.reports
            if id(file) not in mine or id(file) in replaced
        ]
        if not os.environ.get("CI") and _differ(matched.kept, project.entries or []):
            from shardlint.baseline import BadBaseline, save

            try:
                save(project.file, matched.kept)
                report.shrunk = True
            except BadBaseline:  # a tree that is only read: the next run that may write does it
                continue


def record(paths: Sequence[Path], options: Options, add: bool, cached: bool) -> tuple[list[str], int, bool]:
    """Make or bring up to date the baselines of the projects that paths are in.

    Returns lines for people, how many findings are in no baseline, and whether something could not be checked.
    """
    from shardlint.baseline import save
    from shardlint.check import check, chosen
    from shardlint.places import Places
    from shardlint.reports.text import count, skipped

    report = check(paths, options, cached=cached)
    places = Places(config=options.config)
    found = chosen(paths, options, places)
    lines = list(skipped(report))
    new = 0
    for project in projects(report, found, options, places).values():
        matched = compare(project, report, all_rules(options))
        first = project.entries is None
        taken = matched.added if first or add else []
        entries = [*matched.kept, *taken]
        shown = os.path.relpath(project.file)
        if _differ(entries, project.entries or []) or (first and entries):
            save(project.file, entries)
        files = count(len({entry.path for entry in entries}), "file")
        said = f"{shown}: {count(len(entries), 'known finding')} in {files}"
        changes = [
            f"{number} {word}"
            for number, word in ((0 if first else len(taken), "added"), (len(matched.gone), "gone"))
            if number
        ]
        lines.append(f"{said}{f' ({chr(44).join(changes)})' if changes else ''}.")
        if not entries:
            lines[-1] = f"{shown}: no findings, so no baseline."
        left = len(matched.added) - len(taken)
        if left:
            new += left
            lines.append(
                f"{count(left, 'finding')} not in it; `shardlint check` shows them, --add adds them."
            )
    return lines, new, report.undone


def entries_of(reports: Iterable[FileReport], base: Path) -> list[Entry]:
    """Findings as entries of a baseline in a folder."""
    from shardlint.baseline import match

    return match([], list(reports), base, lambda _: False).added


def _differ(kept: Iterable[Entry], entries: Iterable[Entry]) -> bool:
    return sorted(kept) != sorted(entries)
