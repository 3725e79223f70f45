"""A project again, after some of its files changed: for whoever keeps it between two checks, as an editor does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from shardlint.model.bits import Bits, Need
from shardlint.model.needs import GROUPS, Needs
from shardlint.model.project import Project
from shardlint.source.import_graph import ImportGraph, parse_imports
from shardlint.source.lazy import dataclass
from shardlint.source.searches import JOINED, SEARCHES, TOGETHER, Question, search_holds
from shardlint.source.text import Source
from shardlint.syntax import FileFacts
from shardlint.syntax.file_edits import Edited, Text, code_digests
from shardlint.syntax.parts import texts_of_parts


@dataclass(frozen=True)
class InvalidatedFacts:
    """Invalidated facts: answers to project-wide questions, and parts of files, by their absolute paths."""

    asked: frozenset[Need] = frozenset()
    edited: Mapping[str, Edited] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
    """The files of which lines may be elsewhere, by their paths."""

    def __or__(self, other: InvalidatedFacts) -> InvalidatedFacts:
        return InvalidatedFacts(self.asked | other.asked, {**self.edited, **other.edited}, self.moved | other.moved)

    def find_invalidated_numbers(self, kept: Needs | Bits) -> set[int]:
        """The numbers, among needs that are kept by number, of those that may have other answers now."""
        found = {number for need in self.asked if (number := kept.number_of_need(need)) is not None}
        for path, edited in self.edited.items():
            found.update(number for number, need in kept.needs_by_key(path) if edited.may_have_changed(need))
        for kind in (TOGETHER, JOINED) if GROUPS in self.asked else ():
            found.update(number for number, _ in kept.needs_by_key(kind))
        return found

    def any_of(self, needs: Iterable[Need]) -> bool:
        """Return whether any of some needs may have another answer now."""
        return bool(self.find_invalidated_numbers(Bits(needs)))


def update_project(
    before: Project,
    overlay: dict[Path, Source],
    changed: Collection[Path],
    files: dict[Path, int] | None,
    beside: bool = False,
) -> tuple[Project, InvalidatedFacts]:
    """The project with other texts, and what of it is no longer what it was.

    What was parsed of the other files is lent to it, and what searches found is brought up to date. `files` are all
    files there are, where some came or went. What answers need is known to both, unless one is used `beside` the
    other.
    """
    after = Project(before.root, overlay, before.by_part, before.needs.copy_needs() if beside else before.needs)
    after.inherit_files(before, changed)
    after.lent = {path: facts for path, facts in before.parsed_files().items() if path not in changed}
    moved = files is not None and files.keys() != before.files.keys()
    after.files = files if files is not None else dict(before.files)
    gone: set[Need] = set()
    texts = {path: after.bytes_of(path) for path in changed if path in after.files}
    if "import_graph" in vars(before):
        graph = _changed_import_graph(before.import_graph, after, texts, moved)
        after.import_graph = graph if graph is not None else before.import_graph
        if graph is not None:
            gone.add(GROUPS)
    after.answers, after.members = dict(before.answers), dict(before.members)
    for question, found in before.answers.items():
        if question[0] in SEARCHES:
            members = after.members.get(question)
            if members is None:
                members = after.members[question] = frozenset(map(str, found))
            other = [
                str(path)
                for path in changed
                if (str(path) in members) != _search_matches(question, texts.get(path))
            ]
            if other:
                gone.add(question)
                members = after.members[question] = members.symmetric_difference(other)
                after.answers[question] = [path for path in after.files if str(path) in members]
        elif moved:
            file = after.module_file(question)
            now = [file] if file is not None else []
            if now != found:
                gone.add(question)
                after.answers[question] = now
    known = before.parsed_files()
    return after, InvalidatedFacts(
        frozenset(gone),
        {str(path): _file_changes(known.get(path), after, path) for path in changed},
        frozenset(str(path) for path in changed if _moves_lines(known.get(path), after, path)),
    )


def _file_changes(before: FileFacts | None, after: Project, path: Path) -> Edited:
    """Return the changes of a file. All of it counts as changed if its code was or is not parsed."""
    now = after.facts(path) if before is not None else None
    if before is None or now is None:
        return Edited(None, None)
    had, text = _text_of_file(before), _text_of_file(now)
    other = {
        name for name in had.parts.keys() | text.parts.keys() if had.parts.get(name) != text.parts.get(name)
    }
    return Edited.compare_digests(_digests_of_parts(had, other), text, _digests_of_parts(text, other))


def _moves_lines(before: FileFacts | None, after: Project, path: Path) -> bool:
    """Return whether the position of any line of a file may have changed. An edit of one line changes none."""
    now = after.facts(path) if before is not None else None
    if before is None or now is None:
        return True
    had, has = (facts.untracked_source.text.split("\n") for facts in (before, now))
    return len(had) != len(has) or sum(map(str.__ne__, had, has)) > 1


def _digests_of_parts(text: Text, names: set[str]) -> dict[str, str]:
    changed = {name: text.parts[name] for name in names & text.parts.keys()}
    return {**dict.fromkeys(text.parts, ""), **code_digests(Text(text.whole, changed))}


def _text_of_file(facts: FileFacts) -> Text:
    text = facts.untracked_source.text
    return Text(text, texts_of_parts(text, facts.looked.parts_in_order))


def _search_matches(question: Question, data: bytes | None) -> bool:
    """Return whether a search finds a text now; False for a deleted text."""
    return data is not None and search_holds(question, data)


def _changed_import_graph(
    before: ImportGraph, after: Project, texts: dict[Path, bytes], moved: bool
) -> ImportGraph | None:
    """The imports as they are now; None where they are the same. `moved` says that files came or went."""
    new = {str(path): parse_imports(data) for path, data in texts.items()}
    if not moved and all(before.imports.get(name) == found for name, found in new.items()):
        return None
    imports = dict(_imports_of_files(before, after, new))
    return ImportGraph(str(after.root), imports) if imports != before.imports else None


def _imports_of_files(
    before: ImportGraph, after: Project, new: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for path in after.files:
        name = str(path)
        known = new.get(name)
        yield name, tuple(before.imports.get(name, ())) if known is None else known
