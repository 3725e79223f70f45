"""Findings in files that were not given, and that rest on files that were: what a change does to the rest of a project.

`check main.py` looks at the files that may run in one program with main.py too, and reports what is found there only
because of what main.py says. With a revision to compare with, only what was not found there before.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.folders import shown_folder
from shardlint.engine.adoption.baseline import match_entries
from shardlint.engine.adoption.known_findings import entries_of
from shardlint.engine.changes.revision_files import Base
from shardlint.engine.file_choice import choose_files
from shardlint.engine.results import FileReport
from shardlint.source.decoding import decode_file
from shardlint.source.find import SelectedFile, survey_folder
from shardlint.source.import_graph import ImportGraph, read_imports
from shardlint.source.text import Source, Unreadable

if TYPE_CHECKING:
    from shardlint.config.folders import Places
    from shardlint.engine.cache.memory import Memory
    from shardlint.engine.one_file import Checker
    from shardlint.engine.results import Options, Outcome
    from shardlint.rules_api.rule import Finding


class Elsewhere:
    """The projects of the files that are named, and which of their other files these concern."""

    def __init__(
        self,
        named: Iterable[str],
        checked: Collection[str],
        options: Options,
        places: Places,
        memory: Memory | None,
    ) -> None:
        self._options, self._places = options, places
        self._projects = {
            root: (
                files,
                [
                    met
                    for met in _other_files(root, files, options, places, memory)
                    if met.real not in checked
                ],
            )
            for root, files in _group_by_project(named, places).items()
        }

    @property
    def other_files(self) -> list[SelectedFile]:
        """The other files."""
        return [met for _, others in self._projects.values() for met in others]

    def findings_caused(
        self, outcomes: Sequence[Outcome], since: str | None, memory: Memory | None
    ) -> Iterator[FileReport]:
        """The findings in the other files that rest on the named ones, and that were not there without them.

        `outcomes` are those of the other files, in order. With a revision: that were not there at it.
        """
        found = iter(outcomes)
        for root, (files, others) in self._projects.items():
            base = Base(since, root) if since is not None else None
            resting = {
                met.real: kept
                for met, outcome in zip(others, found, strict=False)
                if (report := outcome.report) is not None
                and (kept := _findings_resting_on(report, files)) is not None
            }
            if base is not None and memory is not None and (resting or memory.is_dirty) and base.base_commit:
                memory.compare_with(root, base)
            if base is not None and resting and not base.base_commit:
                yield from resting.values()  # nothing was ever committed: all is new
                continue
            if base is not None and memory is not None:
                resting = {real: one for real, one in resting.items() if _is_new(one, memory.before_revision(real))}
            if resting:
                before = self._findings_before(resting, base or files, memory if base is not None else None)
                entries = entries_of(before, Path(root))
                matched = match_entries(entries, list(resting.values()), Path(root), lambda _: False)
                yield from (file.select_findings(findings) for file, findings in matched.new)

    def _findings_before(
        self, reports: Mapping[str, FileReport], state: Base | set[str], memory: Memory | None
    ) -> Iterator[FileReport]:
        """Yield the findings in the files of reports at a revision, or with some files empty."""
        overlay: dict[Path, Source] = {}
        checker: Checker | None = None
        for real, report in reports.items():
            findings = memory.before_revision(real) if memory is not None else None
            if findings is None:
                if checker is None:
                    from shardlint.engine.one_file import Checker

                    overlay.update(
                        _sources_of_texts(state.texts_at_base if isinstance(state, Base) else dict.fromkeys(state))
                    )
                    checker = Checker(self._options, overlay, self._places)
                found = checker.check_file(Path(real)).report
                findings = found.findings if found is not None else []
                if memory is not None:
                    memory.keep_before_revision(real, findings)
            yield FileReport(report.path, overlay.get(Path(real), report.source), findings)
        if checker is not None:
            checker.let_go()


def _sources_of_texts(texts: Mapping[str, bytes | None]) -> Iterator[tuple[Path, Source]]:
    for name, data in texts.items():
        with contextlib.suppress(Unreadable):
            yield Path(name), decode_file(Path(name), data) if data else Source(Path(name), "")


def _group_by_project(given: Iterable[str], places: Places) -> dict[str, set[str]]:
    """The files by their project; those in no marked one stand alone."""
    projects: dict[str, set[str]] = {}
    for path in given:
        folder = os.path.dirname(path)
        if places.is_marked(folder):
            projects.setdefault(places.project_root(folder), set()).add(path)
    return projects


def _other_files(
    root: str, files: set[str], options: Options, places: Places, memory: Memory | None
) -> list[SelectedFile]:
    graph = memory.find_graph(min(files)) if memory is not None else _build_graph(root, places)
    others = _files_running_with(files, graph)
    if not others:
        return []
    return [
        _with_shown_path(met) for met in choose_files([Path(root)], options, places).met if met.real in others
    ]


def _is_new(report: FileReport, before: list[Finding] | None) -> bool:
    """Return whether any finding of a file may be new. Without `before` that is not known."""
    return before is None or any(one not in before for one in report.findings)


def _build_graph(root: str, places: Places) -> ImportGraph:
    stamps, _ = survey_folder(Path(root), places.tree)
    return ImportGraph(root, {path: read_imports(Path(path)) for path in stamps})


def _files_running_with(files: set[str], graph: ImportGraph) -> frozenset[str]:
    """The files of a project that may run in one program with some of it; those themselves left out."""
    new = files.difference(graph.paths)
    if new:  # they lie where no walk through the project comes
        graph = ImportGraph(graph.root, {**graph.imports, **{path: read_imports(Path(path)) for path in new}})
    return frozenset().union(*(graph.paths_of_bits(graph.files_run_together(path)) for path in files)) - files


def _with_shown_path(met: SelectedFile) -> SelectedFile:
    folder, _, name = met.real.rpartition(os.sep)
    shown = shown_folder(folder)
    return met._replace(shown=name if shown == "." else f"{shown}/{name}")


def _findings_resting_on(report: FileReport, files: set[str]) -> FileReport | None:
    kept = [one for one in report.findings if not files.isdisjoint(one.rests)]
    return report.select_findings(kept) if kept else None
