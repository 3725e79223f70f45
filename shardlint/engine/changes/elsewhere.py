"""Findings in files that were not given, and that rest on files that were: what a change does to the rest of a project.

`check main.py` looks at the files that may run in one program with main.py too, and reports what is found there only
because of what main.py says. With a revision to compare with, only what was not found there before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.folders import shown_folder
from shardlint.source.find import Found, Met

if TYPE_CHECKING:
    from shardlint.config.folders import Places
    from shardlint.engine.results import FileReport, Options, Outcome, Report

Outcomes = Callable[[Found], Iterable["Outcome"]]


def look(
    report: Report,
    given: Iterable[str],
    options: Options,
    places: Places,
    outcomes: Outcomes,
    since: str | None,
    cached: bool,
) -> Found:
    """Add to a report what rests on the given files (absolute paths); returns the files that were looked at for it."""
    looked = Found()
    for root, files in _by_project(given, places).items():
        found = _others(root, files, options, places, cached)
        if not found.met:
            continue
        looked.met += found.met
        reports = [
            kept
            for outcome in outcomes(found)
            if outcome.report is not None and (kept := _resting(outcome.report, files)) is not None
        ]
        if reports and since is not None:
            from shardlint.engine.changes.before import new_since

            reports = new_since(since, root, reports, options, report)
        elif reports:
            reports = list(_caused(reports, files, options, places))
        report.reports += reports
        report.elsewhere += sum(len(one.findings) for one in reports)
    return looked


def _by_project(given: Iterable[str], places: Places) -> dict[str, set[str]]:
    """The files by their project; those in no marked one stand alone."""
    projects: dict[str, set[str]] = {}
    for path in given:
        folder = os.path.dirname(path)
        if places.is_marked(folder):
            projects.setdefault(places.root(folder), set()).add(path)
    return projects


def _others(root: str, files: set[str], options: Options, places: Places, cached: bool) -> Found:
    from shardlint.engine.changes.related import related
    from shardlint.engine.run import chosen

    others = related(root, files, places.tree, places.store if cached else None)
    if not others:
        return Found()
    every = chosen([Path(root)], options, places)
    return Found(met=[_shown(met) for met in every.met if met.real in others])


def _shown(met: Met) -> Met:
    folder, _, name = met.real.rpartition(os.sep)
    shown = shown_folder(folder)
    return met._replace(shown=name if shown == "." else f"{shown}/{name}")


def _resting(report: FileReport, files: set[str]) -> FileReport | None:
    kept = [one for one in report.findings if not files.isdisjoint(one.rests)]
    return report.of(kept) if kept else None


def _caused(
    reports: list[FileReport], files: set[str], options: Options, places: Places
) -> Iterator[FileReport]:
    """What would not be found if the given files said nothing. What is found rests on files that bear it out, too."""
    from shardlint.engine.one_file import Checker
    from shardlint.source.text import Source

    checker = Checker(options, {Path(path): Source(Path(path), "") for path in files}, places)
    for report in reports:
        again = checker.check_file(report.path).report
        there = {(one.rule.code, one.start) for one in again.findings} if again is not None else set()
        kept = [one for one in report.findings if (one.rule.code, one.start) not in there]
        if kept:
            yield report.of(kept)
    checker.let_go()


def plain_options(options: Options, targets: dict[str, str]) -> Options:
    """The options to look at another state of the project with: for the same releases."""
    return replace(options, targets={**targets, **options.targets})
