"""A project again, after some of its files changed: for whoever keeps it between two checks, as an editor does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shardlint.model.bits import Bits
from shardlint.model.needs import GROUPS, Need, Needs
from shardlint.model.project import Project
from shardlint.source.import_graph import ImportGraph, imports_of
from shardlint.source.searches import JOINED, OF_FILES, SEARCHES, TOGETHER, Question, holds
from shardlint.source.text import Source
from shardlint.syntax import FileFacts
from shardlint.syntax.edited import Edited, Text, code_digests
from shardlint.syntax.parts import OUTLINE, texts


@dataclass(frozen=True)
class Gone:
    """What is no longer as it was: answers to questions, and some of some files, by their absolute paths."""

    asked: frozenset[Need] = frozenset()
    edited: Mapping[str, Edited] = field(default_factory=dict)

    def __or__(self, other: Gone) -> Gone:
        return Gone(self.asked | other.asked, {**self.edited, **other.edited})

    def touched(self, needed: Iterable[Need]) -> Iterator[int]:
        """The places of needs that may have other answers now."""
        edited, asked, grouped = self.edited, self.asked, GROUPS in self.asked
        for place, need in enumerate(needed):  # they are many
            if not isinstance(need, tuple):
                if str(need) in edited and edited[str(need)].touches(need):
                    yield place
            elif need[0] in OF_FILES:
                if need[1] in edited and edited[need[1]].touches(need):
                    yield place
            elif need in asked or (grouped and need[0] in (TOGETHER, JOINED)):
                yield place

    def at(self, places: Bits) -> Iterator[int]:
        """The same of needs that have places."""
        for need in self.asked:
            place = places.find(need)
            if place is not None:
                yield place
        for path, edited in self.edited.items():
            yield from (place for place, need in places.by(path) if edited.touches(need))
        for kind in (TOGETHER, JOINED) if GROUPS in self.asked else ():
            yield from (place for place, _ in places.by(kind))

    def numbers(self, needs: Needs) -> set[int]:
        """The same of all that was ever needed."""
        found = {needs.number(need) for need in self.asked} - {0}
        for path, edited in self.edited.items():
            found.update(number for number, need in needs.by(path) if edited.touches(need))
        for kind in (TOGETHER, JOINED) if GROUPS in self.asked else ():
            found.update(number for number, _ in needs.by(kind))
        return found

    def any_of(self, needed: Iterable[Need]) -> bool:
        """Whether any of some needs may have another answer now."""
        return next(self.touched(needed), None) is not None


def again(
    before: Project,
    overlay: dict[Path, Source],
    changed: Collection[Path],
    files: dict[Path, int] | None,
    beside: bool = False,
) -> tuple[Project, Gone]:
    """The project with other texts, and what of it is no longer what it was.

    What was parsed of the other files is lent to it, and what searches found is brought up to date. `files` are all
    files there are, where some came or went. What answers need is known to both, unless one is used `beside` the
    other.
    """
    after = Project(before.root, overlay, before.by_part, before.needs.copy() if beside else before.needs)
    after.lent = {path: facts for path, facts in before.parsed().items() if path not in changed}
    moved = files is not None and files.keys() != before.files.keys()
    after.files = files if files is not None else dict(before.files)
    gone: set[Need] = set()
    texts = {path: after.bytes_of(path) for path in changed if path in after.files}
    if "graph" in vars(before):
        graph = _graph(before.graph, after, texts, moved)
        after.graph = graph if graph is not None else before.graph
        if graph is not None:
            gone.add(GROUPS)
    after.answers, after.members = dict(before.answers), dict(before.members)
    for question, found in before.answers.items():
        if question[0] in SEARCHES:
            members = after.members.get(question)
            if members is None:
                members = after.members[question] = frozenset(map(str, found))
            other = [str(path) for path in changed if (str(path) in members) != _holds(question, texts.get(path))]
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
    known = before.parsed()
    return after, Gone(
        frozenset(gone), {str(path): _edited(known.get(path), after, path) for path in changed}
    )


def _edited(before: FileFacts | None, after: Project, path: Path) -> Edited:
    """What changed of a file; all of it, where its code was not parsed or is not."""
    now = after.facts(path) if before is not None else None
    if before is None or now is None:
        return Edited(None, None)
    had, text = _text(before), _text(now)
    other = {
        name for name in had.parts.keys() | text.parts.keys() if had.parts.get(name) != text.parts.get(name)
    }
    return Edited.between(_codes(had, other), text, _codes(text, other))


def _codes(text: Text, names: set[str]) -> dict[str, str]:
    return {
        OUTLINE: "",
        **code_digests(Text(text.whole, {name: text.parts[name] for name in names & text.parts.keys()})),
    }


def _text(facts: FileFacts) -> Text:
    text = facts.untold.text
    return Text(text, texts(text, facts.looked.parts))


def _holds(question: Question, data: bytes | None) -> bool:
    """Whether a search finds a text now; not where there is none any more."""
    return data is not None and holds(question, data)


def _graph(before: ImportGraph, after: Project, texts: dict[Path, bytes], moved: bool) -> ImportGraph | None:
    """The imports as they are now; None where they are the same. `moved` says that files came or went."""
    new = {str(path): imports_of(data) for path, data in texts.items()}
    if not moved and all(before.imports.get(name) == found for name, found in new.items()):
        return None
    imports = dict(_imports(before, after, new))
    return ImportGraph(str(after.root), imports) if imports != before.imports else None


def _imports(
    before: ImportGraph, after: Project, new: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for path in after.files:
        name = str(path)
        known = new.get(name)
        yield name, tuple(before.imports.get(name, ())) if known is None else known
