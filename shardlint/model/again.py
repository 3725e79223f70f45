"""A project again, after some of its files changed: for whoever keeps it between two checks, as an editor does."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from shardlint.model.needs import GROUPS, Need
from shardlint.model.project import Project
from shardlint.source.import_graph import ImportGraph, imports_of
from shardlint.source.searches import JOINED, SEARCHES, TOGETHER, Question, holds
from shardlint.source.text import Source


def again(
    before: Project, overlay: dict[Path, Source], changed: Collection[Path], files: dict[Path, int] | None
) -> tuple[Project, frozenset[Need]]:
    """The project with other texts, and what of it is no longer what it was: files and questions.

    What was parsed of the other files is lent to it, and what searches found is brought up to date. `files` are all
    files there are, where some came or went.
    """
    after = Project(before.root, overlay)
    after.lent = {path: facts for path, facts in before.parsed().items() if path not in changed}
    moved = files is not None and files.keys() != before.files.keys()
    after.files = files if files is not None else dict(before.files)
    gone: set[Need] = set(changed)
    texts = {path: after.bytes_of(path) for path in changed if path in after.files}
    if "graph" in vars(before):
        graph = _graph(before.graph, after, texts)
        after.graph = graph if graph is not None else before.graph
        if graph is not None:
            gone.add(GROUPS)
    for question, found in before.answers.items():
        if question[0] in SEARCHES:
            now = _found(question, found, changed, texts)
            if now is not None:
                gone.add(question)
                found = [path for path in after.files if path in now]
        elif moved:
            file = after.module_file(question)
            now = {file} if file is not None else set()
            if now != set(found):
                gone.add(question)
            found = list(now)
        after.answers[question] = found
    return after, frozenset(gone)


def rests(needed: Collection[Need], gone: frozenset[Need]) -> bool:
    """Whether what needed these rests on something that is no longer so."""
    grouped = GROUPS in gone
    return any(need in gone or (grouped and _is_group(need)) for need in needed)


def _is_group(need: Need) -> bool:
    return isinstance(need, tuple) and need[0] in (TOGETHER, JOINED)


def _found(
    question: Question, found: list[Path], changed: Collection[Path], texts: dict[Path, bytes]
) -> set[Path] | None:
    """The files that a search finds now; None where they are the same."""
    had = set(found)
    now = had.difference(changed) | {path for path, data in texts.items() if holds(question, data)}
    return now if now != had else None


def _graph(before: ImportGraph, after: Project, texts: dict[Path, bytes]) -> ImportGraph | None:
    """The imports as they are now; None where they are the same."""
    new = {str(path): imports_of(data) for path, data in texts.items()}
    imports = dict(_imports(before, after, new))
    return ImportGraph(str(after.root), imports) if imports != before.imports else None


def _imports(
    before: ImportGraph, after: Project, new: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for path in after.files:
        name = str(path)
        known = new.get(name)
        yield name, tuple(before.imports.get(name, ())) if known is None else known
