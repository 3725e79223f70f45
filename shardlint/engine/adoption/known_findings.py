"""Comparison of a report with the baselines of its projects: known findings leave the report, outdated entries the
baseline.
"""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.certainty import Certainty
from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardlint.config.folders import Places
    from shardlint.config.settings import Settings
    from shardlint.engine.adoption.baseline import Entry, Matched
    from shardlint.engine.results import FileReport, Options, Report
    from shardlint.source.find import FileSelection

NAME = ".shardlint-baseline.json"


@dataclass
class ProjectBaseline:
    """The baseline of one project, and the files of the project that a run looked at."""

    file: Path
    base: Path
    least: Certainty
    files: set[str] = field(default_factory=set)
    """Absolute paths, links followed."""
    reports: list[FileReport] = field(default_factory=list)
    entries: list[Entry] | None = None
    matched: Matched | None = None


def projects_with_baselines(
    report: Report, file_selection: FileSelection, options: Options, places: Places
) -> dict[str, ProjectBaseline]:
    """The projects of a run by their roots, each with its baseline."""
    known: dict[str, ProjectBaseline] = {}
    folders: dict[str, ProjectBaseline] = {}
    for met in file_selection.met:
        folder = os.path.dirname(met.real)
        if folder not in folders:
            root = places.project_root(folder)
            if root not in known:
                settings = places.settings_for(folder)
                file = _baseline_path(settings, root)
                known[root] = ProjectBaseline(file, file.parent.resolve(), settings.least_certainty(options.certainty))
            folders[folder] = known[root]
        folders[folder].files.add(met.real)
    for one in report.reports:
        folders[os.path.dirname(os.path.realpath(one.path))].reports.append(one)
    return known


def _baseline_path(settings: Settings, root: str) -> Path:
    """The baseline of a project. Raises `BadBaseline` where its settings place it outside of the project."""
    if not settings.baseline:
        return Path(root, NAME)
    file = settings.settings_folder / settings.baseline
    inside = os.path.realpath(settings.settings_folder), root
    if not any(Path(os.path.realpath(file)).is_relative_to(folder) for folder in inside):
        from shardlint.engine.adoption.baseline import BadBaseline

        raise BadBaseline(
            f"{settings.path}: baseline is {settings.baseline!r}, which is outside the project; write a path "
            f"inside, such as \"{NAME}\""
        )
    return file


def baselines_of(file_selection: FileSelection, options: Options, places: Places) -> dict[str, ProjectBaseline]:
    """The projects of a run that have a baseline, each with what is in it, by their roots. Raises `BadBaseline`."""
    from shardlint.engine.adoption.baseline import load_entries
    from shardlint.engine.results import Report

    there = {
        root: one
        for root, one in projects_with_baselines(Report(), file_selection, options, places).items()
        if one.file.is_file()
    }
    for one in there.values():
        one.entries = load_entries(one.file)
    return there


def compare_with_baseline(project: ProjectBaseline, report: Report, whole: bool) -> Matched:
    """Compare a project's findings with its baseline.

    `whole` says that all rules were run, so that what was not found is not there.
    """
    from shardlint.engine.adoption.baseline import load_entries, match_entries

    project.entries = load_entries(project.file)
    undone = {os.path.realpath(path) for path, _ in (*report.skipped, *report.faults)}
    checked = project.files - undone

    def is_entry_checked(entry: Entry) -> bool:
        sure = entry.certainty in list(Certainty) and Certainty(entry.certainty).is_at_least(project.least)
        return whole and sure and os.path.realpath(project.base / entry.path) in checked

    project.matched = match_entries(project.entries or [], project.reports, project.base, is_entry_checked)
    return project.matched


def checks_all_rules(options: Options) -> bool:
    """Return whether a run checks all rules that the settings select."""
    return not (options.select or options.ignore or options.harm or options.targets)


def leave_out(
    report: Report,
    file_selection: FileSelection,
    options: Options,
    places: Places,
    partly: frozenset[str] = frozenset(),
) -> None:
    """Take out of a report what is known. Baselines lose what is gone, except in CI, where nobody would keep that.

    Of the files `partly` only some findings are in the report: nothing of them is taken to be gone.
    """
    for project in projects_with_baselines(report, file_selection, options, places).values():
        if not project.file.is_file():
            continue
        project.files -= partly
        matched = compare_with_baseline(project, report, checks_all_rules(options))
        report.known += matched.known
        report.baselines.append(project.file)
        report.gone += len(matched.gone)
        replaced = {id(file): findings for file, findings in matched.new}
        mine = {id(file) for file in project.reports}
        report.reports = [
            file.select_findings(replaced[id(file)]) if id(file) in replaced else file
            for file in report.reports
            if id(file) not in mine or id(file) in replaced
        ]
        if not os.environ.get("CI") and are_baselines_different(matched.kept, project.entries or []):
            from shardlint.engine.adoption.baseline import BadBaseline, save_entries

            try:
                save_entries(project.file, matched.kept)
                report.shrunk = True
            except BadBaseline:  # a tree that is only read: the next run that may write does it
                continue


def entries_of(reports: Iterable[FileReport], base: Path) -> list[Entry]:
    """Findings as entries of a baseline in a folder."""
    from shardlint.engine.adoption.baseline import match_entries

    return match_entries([], list(reports), base, lambda _: False).added


def are_baselines_different(kept: Iterable[Entry], entries: Iterable[Entry]) -> bool:
    """Return whether two baselines hold different findings."""
    return sorted(kept) != sorted(entries)
