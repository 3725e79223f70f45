"""Files to findings: which files, what is known of them already, and who checks the rest."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.folders import Places, folder_of, real_path
from shardlint.engine.check_files import check_files
from shardlint.engine.file_choice import choose_files
from shardlint.engine.results import Options, Outcome, Report
from shardlint.source.find import FileSelection
from shardlint.source.timing import timed

if TYPE_CHECKING:
    from shardlint.config.targets import Targets
    from shardlint.engine.cache.memory import Memory
    from shardlint.engine.changes.caused_findings import Elsewhere
    from shardlint.engine.one_file import Checker
    from shardlint.source.find import SelectedFile
    from shardlint.source.text import Source


def check_paths(
    paths: Sequence[Path],
    options: Options,
    stdin: tuple[Path, bytes] | None = None,
    *,
    cached: bool = False,
    known: bool = False,
    elsewhere: bool = False,
    since: str | None = None,
) -> Report:
    """Check files and folders, or text given on standard input under a name.

    With `cached` what an earlier run found is used where it still holds, and what this one finds is kept for the next.
    With `known` what the baselines of the projects hold is left out; with `elsewhere` what rests on the files that are
    named is reported in other files too, if it was not there at the revision `since`.
    Raises `BadSettings` and `UnknownRule`: the run cannot be done as asked. Everything else that is wrong with a file
    is reported and the other files are checked.
    """
    if stdin is not None:
        return _check_text(options, *stdin)
    places = Places(config=options.config, paths=paths)
    report = Report()
    with timed("finding files"):
        found = choose_files(paths, options, places)
    report.find_targets = lambda asked: _targets_of_projects(found, asked, options, places)
    report.passed_by(found)
    report.since = since
    report.root = lambda path: places.project_root(folder_of(Path(real_path(path))))
    memory = _open_memory(options, places) if cached else None
    others = _findings_elsewhere(found, options, places, memory) if elsewhere else None
    met = [*found.met, *(others.other_files if others is not None else ())]
    if memory is not None:
        from shardlint.engine.workers import worth_it

        memory.many = worth_it(met)
    outcomes = list(_check_files(met, options, places, memory))
    for one, outcome in zip(found.met, outcomes, strict=False):
        report.incomplete = report.incomplete or (one.stamp is None and outcome.reason is not None)
        report.add_outcome(one.shown_path, outcome)
    if others is not None:
        caused = list(others.findings_caused(outcomes[len(found.met) :], since, memory))
        report.reports += caused
        report.elsewhere = sum(len(one.findings) for one in caused)
    if memory is not None:
        with timed("remembering"):
            memory.save_new()
    if known:
        from shardlint.engine.adoption.known_findings import leave_out

        leave_out(
            report,
            replace(found, met=met),
            options,
            places,
            frozenset(one.real for one in met[len(found.met) :]),
        )
    return report


def _findings_elsewhere(
    file_selection: FileSelection, options: Options, places: Places, memory: Memory | None
) -> Elsewhere | None:
    # Not a pipe, which can be read only once.
    named = [met.real for met in file_selection.met if met.stamp is None and os.path.isfile(met.real)]
    if not named:
        return None
    from shardlint.engine.changes.caused_findings import Elsewhere

    return Elsewhere(named, {met.real for met in file_selection.met}, options, places, memory)


def _open_memory(options: Options, places: Places) -> Memory | None:
    if places.result_store is None:
        return None
    from shardlint.engine.cache.memory import Memory

    return Memory(places.result_store, options, places)


def _check_files(
    met: Sequence[SelectedFile], options: Options, places: Places, memory: Memory | None
) -> Iterable[Outcome]:
    if memory is None:
        return check_files([one.shown_path for one in met], _make_checker(options, places))
    from shardlint.engine.cache import check_with_cache

    return check_with_cache(met, options, places, memory)


def _make_checker(options: Options, places: Places) -> Checker:
    from shardlint.engine.one_file import Checker

    return Checker(options, places=places)


def _targets_of_projects(
    file_selection: FileSelection, paths: Iterable[Path] | None, options: Options, places: Places
) -> dict[str, Targets]:
    from shardlint.config.targets import find_targets

    asked = None if paths is None else {str(path) for path in paths}
    projects: dict[str, Targets] = {}
    for folder in {os.path.dirname(met.real): 1 for met in file_selection.met if asked is None or met.shown in asked}:
        root = places.project_root(folder)
        if root not in projects:
            settings = places.settings_for(folder)
            projects[root] = find_targets(Path(root), options.targets, settings.targets, settings.file_name)
    return projects


def _check_text(options: Options, path: Path, data: bytes) -> Report:
    from shardlint.engine.one_file import Checker
    from shardlint.source.decoding import decode_file
    from shardlint.source.text import Unreadable

    absolute = Path(real_path(path))
    overlay: dict[Path, Source] = {}
    with contextlib.suppress(Unreadable):  # check_file says why
        overlay[absolute] = decode_file(path, data)
    checker = Checker(options, overlay)
    report = Report(find_targets=lambda _: {checker.root_for(absolute): checker.targets_for(absolute)})
    report.root = checker.root_for
    outcome = checker.check_file(path, data)
    report.incomplete = outcome.reason is not None
    report.add_outcome(path, outcome)
    return report
