"""Cache of one project: its files, the findings in each and their dependencies."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardlint.config.environments import site_packages
from shardlint.engine.cache.earlier_findings import Earlier
from shardlint.engine.cache.files import Files, stamp_at
from shardlint.engine.results import NOTHING, QUIET, FileReport, Outcome
from shardlint.source.find import SelectedFile
from shardlint.source.import_graph import ImportGraph, parse_imports
from shardlint.source.notebook import read_program
from shardlint.source.screen import Texts
from shardlint.source.searches import JOINED, OF_FILES, SEARCHES, TOGETHER, search_holds
from shardlint.source.store import change_time
from shardlint.source.tree import Tree

if TYPE_CHECKING:
    from shardlint.engine.cache.records import Records
    from shardlint.engine.changes.revision_files import Base
    from shardlint.engine.groups import Before
    from shardlint.model.bits import Need
    from shardlint.model.project import Answers
    from shardlint.rules_api.rule import Finding
    from shardlint.source.screen import Screens
    from shardlint.syntax.file_edits import Edited
    from shardlint.syntax.parts import Part

# A file may change twice within one tick of the clock that dates it: what is so new is known by its content only.
_TICK = 2_000_000_000
_FEW = 20
_FEW_BYTES = 20_000_000
_OF_FILES = OF_FILES | {"file"}


class Shard:
    """A project under one set of settings and options.

    Files are named by their path from the root, one outside of it by its absolute path. A need is `("file", name)` or
    a question to the project. `screens` are those of all rules, by which a file that changed may be seen to be of no
    interest; None where it must be checked.
    """

    def __init__(
        self,
        data: dict[str, Any] | None,
        root: str,
        tree: Tree,
        screens: Callable[[], Screens | None],
        records: Records,
    ) -> None:
        self.root = root
        self.files = Files(root, tree)
        self.screens = screens
        self.records = records
        self._dirty = False
        self._new = 0
        self._there: dict[str, bool] = {}
        self._same_group: dict[tuple[bool, int, int], bool] = {}
        self._parts: dict[str, tuple[Part, ...]] = {}
        self._edited: dict[str, Edited] = {}
        self._dead: set[int] = set()
        """The needs that no longer hold."""
        self._changed: list[str] = []
        """The files that changed."""
        self._named: tuple[str, ...] = ()
        """Their names, without folders."""
        try:
            self._load_data(data or {})
        except (AttributeError, LookupError, TypeError, ValueError):
            self._load_data({})

    def _load_data(self, data: dict[str, Any]) -> None:
        names, digests, sizes, written, changed, numbers = data.get("files") or ([], [], [], [], [], [])
        times = _are_all_of_type(int, written) and _are_all_of_type(int, changed)
        if not (
            _are_all_of_type(str, names)
            and _are_all_of_type(str, digests)
            and _are_all_of_type(int, sizes)
            and times
            and _are_all_of_type(int, numbers)
        ):
            raise TypeError("no names, digests and stamps")
        columns = zip(sizes, written, changed, numbers, strict=True)
        self.files.stamps = dict(zip(names, columns, strict=True))
        self.files.digests = dict(zip(names, digests, strict=True))
        self.imports: dict[str, tuple[str, ...]] = {
            name: tuple(map(str, found))
            for name, found in zip(names, data.get("imports") or [], strict=False)
            if found is not None
        }
        """What each file of the project imports, if anybody asked for that."""
        self._edges: list[list[int]] | None = data.get("edges")
        """The edges of their graph."""
        if self._edges is not None and any(not 0 <= one < len(self.imports) for found in self._edges for one in found):
            raise ValueError("imports what is not there")
        self.files.codes = {
            name: str(code) for name, code in zip(names, data.get("codes") or [], strict=False) if code
        }
        """The digest of the code of each file that something rests on: a comment changes none of it."""
        self.earlier = Earlier(data.get("earlier"), self.files)
        self.telling: list[Any] = list(data.get("telling", []))
        self.quiet: set[str] = set(map(str, data.get("quiet", [])))
        self.outcomes: dict[str, tuple[list[int], list[Any], str | None, str]] = {
            name: (needs, found, reason, mark)
            for name, (needs, found, reason, mark) in data.get("outcomes", {}).items()
        }
        """What each file needed, what was found in it, why it was not checked, and by what its record is known."""
        self.before: dict[str, tuple[list[int], str]] = {}
        """Of the files that must be looked at again, what they needed and the mark of their record."""
        self._saved_needs: tuple[Sequence[str], Sequence[Any]] = names, data.get("needs", [])
        self.found: dict[int, list[str]] = {
            int(index): [names[place] for place in places] for index, places in data.get("found", {}).items()
        }
        for needs, found, _, _ in self.outcomes.values():
            if not isinstance(found, list) or not _are_all_of_type(int, needs):
                raise TypeError("no needs and findings")
            if needs and not 0 <= min(needs) <= max(needs) < len(self._saved_needs[1]):
                raise ValueError("rests on what is not there")

    @property
    def is_dirty(self) -> bool:
        """True if there is anything to save."""
        return self._dirty or self.files.touched

    @cached_property
    def outcome_needs(self) -> list[tuple[str, ...]]:
        """Return the dependencies of outcomes, by number."""
        names, saved = self._saved_needs
        return [_load_need(need, names) for need in saved]

    @cached_property
    def _need_numbers(self) -> dict[tuple[str, ...], int]:
        return {need: index for index, need in enumerate(self.outcome_needs)}

    # what is known

    def recall_outcome(self, met: SelectedFile) -> Outcome | None:
        """Return the cached outcome of a file; None if it must be checked."""
        name = self.files.name_from_root(met.real)
        if name is None:
            return None
        same = met.stamp is not None and self.files.stamps.get(name) == met.stamp
        if same:
            self.files.mark_unchanged(name)
        if same or self.files.is_unchanged(name):
            if name in self.quiet:
                return QUIET
            if name in self.outcomes:
                return self._known_outcome(met, name)
        screens = self.screens()
        text = self.files.file_contents(name) if screens is not None else None
        if screens is None or text is None or b"shardlint:" in text:
            return None
        screen, without = screens
        texts = Texts(text)
        hits = screen.find_words(texts)
        if hits:
            gone = any(
                not left.filter_words(hits, texts) and not self._imports_module(module)
                for module, left in without.items()
            )
            return NOTHING if gone and _is_parsable(text) else None
        if not _is_parsable(text):
            return None
        # To save a project its files are all looked at: not worth it for the one file of a commit.
        self.quiet.add(name)
        self._new += 1
        self._dirty = self._dirty or self._new > _FEW
        return QUIET

    def _imports_module(self, module: str) -> bool:
        """Return whether any file of the project imports a module, as the program model would answer."""
        if module not in self._there:
            self._there[module] = self._search_import_of(module)
        return self._there[module]

    def _search_import_of(self, module: str) -> bool:
        self._drop_stale_answers()
        files = self.files.walked
        if sum(stamp[0] for stamp in files.values()) > _FEW_BYTES:
            return True  # so much had better be read once, by whoever checks
        texts = (read_program(Path(self.files.absolute_path(name))) or b"" for name in files)
        return any(search_holds(("imported", module), text) for text in texts)

    def _known_outcome(self, met: SelectedFile, name: str) -> Outcome | None:
        self._drop_stale_answers()
        if name not in self.outcomes:
            return None
        _, coded, reason, _ = self.outcomes[name]
        if not coded and reason is None:
            return NOTHING
        findings = self._decode_findings(coded)
        if findings is None:
            return None
        report = FileReport(met.shown_path, None, findings) if findings else None
        return Outcome(met.shown_path, report, None if reason is None else str(reason))

    def search_answers(self) -> Answers:
        """Return the current results of searches through the project."""
        self._drop_stale_answers()
        return {
            self.outcome_needs[index]: [Path(self.files.absolute_path(name)) for name in names]
            for index, names in self.found.items()
        }

    def known_graph(self) -> ImportGraph | None:
        """Which files of the project import which now; None where that is not known of most."""
        return self.find_graph() if self.imports else None

    def find_graph(self) -> ImportGraph:
        """Which files of the project import which now."""
        self._drop_stale_answers()
        self._dirty = self._dirty or not self.imports
        return self._import_graphs[1]

    # what is looked at again

    def known_before(self, real: str) -> Before | None:
        """Return the record of a file from before a change."""
        from shardlint.engine.groups import Before
        from shardlint.model.bits import Bits

        name = self.files.name_from_root(real)
        needs, mark = self.before.get(name or "", ([], ""))
        record = self.records.get_record(name, mark, self.files.absolute_path) if name is not None and mark else None
        if record is None:
            return None
        dead = sum(1 << place for place, index in enumerate(needs) if index in self._dead)
        return Before(
            record, Bits(self._normalize_need(self.outcome_needs[index]) for index in needs), dead, self._named
        )

    def _normalize_need(self, need: tuple[str, ...]) -> Need:
        """A need as it is noted."""
        if need[0] == "file":
            return Path(self.files.absolute_path(need[1]))
        return (need[0], self.files.absolute_path(need[1]), *need[2:]) if need[0] in _OF_FILES else need

    # what is new

    def keep_outcome(self, real: str, outcome: Outcome) -> None:
        """Keep what was found in a file just now."""
        name = self.files.name_from_root(real)
        if name is None:
            return
        self._dirty = True
        if name not in self.quiet and name not in self.outcomes:
            self.earlier.replace_findings(name, None)
        self.quiet.discard(name)
        self.outcomes.pop(name, None)
        if outcome.quiet:
            self.quiet.add(name)
        elif outcome.needed is not None:
            found = self._encode_findings(outcome.report.findings if outcome.report is not None else [])
            needs = [self._number_of_need(need) for need in outcome.needed]
            mark = (
                self.records.put_record(name, outcome.record, self.files.display_name)
                if outcome.record is not None
                else ""
            )
            self.outcomes[name] = needs, found, outcome.reason, mark

    def compare_with(self, base: Base) -> None:
        """Tell from here on what was found at a revision."""
        self._drop_stale_answers()
        self._dirty = self.earlier.settle_state(self._changed, base) or self._dirty

    def findings_earlier(self, real: str) -> list[Finding] | None:
        """Return the findings of a file that was the same at that revision; None if they are not known."""
        name = self.files.name_from_root(real)
        if name in self.earlier.digests:
            return None
        found = self.earlier.findings.get(name) if name is not None else None
        if name is not None and name not in self.earlier.findings and self.earlier.complete:
            found = self.outcomes[name][1] if name in self.outcomes else None
        return None if found is None else self._decode_findings(found)

    def keep_earlier(self, real: str, findings: list[Finding]) -> None:
        """Keep what was found in a file at that revision."""
        name = self.files.name_from_root(real)
        if name is not None:
            self._dirty = True
            self.earlier.findings[name] = self._encode_findings(findings)

    def _encode_findings(self, findings: Iterable[Finding]) -> list[Any]:
        from shardlint.engine.cache.coding import encode_finding

        return [[*encode_finding(one), list(map(self.files.display_name, one.rests))] for one in findings]

    def _decode_findings(self, found: Iterable[Any]) -> list[Finding] | None:
        from shardlint.engine.cache.coding import decode_finding

        try:
            return [decode_finding(finding, tuple(map(self.files.absolute_path, rests))) for *finding, rests in found]
        except (LookupError, TypeError, ValueError):
            return None

    def learn_answers(self, answers: Answers, parts: Mapping[str, tuple[Part, ...]]) -> None:
        """Keep what searches found, of those that something rests on, and the parts of files."""
        self._parts.update((self.files.display_name(real), found) for real, found in parts.items())
        for question, paths in answers.items():
            index = self._need_numbers.get(question)
            if index is not None:
                self.found[index] = [self.files.display_name(str(path)) for path in paths]

    def _number_of_need(self, need: Need) -> int:
        if isinstance(need, Path):
            need = ("file", str(need))
        if need[0] in _OF_FILES:
            need = (need[0], self.files.display_name(need[1]), *need[2:])
            self.files.current_stamp(need[1])
        if need not in self._need_numbers:
            self._need_numbers[need] = len(self.outcome_needs)
            self.outcome_needs.append(need)
        return self._need_numbers[need]

    def encode_all(self) -> dict[str, Any]:
        """All that holds, to be saved."""
        self._drop_stale_answers()
        self.earlier.settle_state(self._changed)
        files: dict[str, tuple[str, int, int, int, int]] = {}
        recent = time.time_ns() - _TICK
        walked = self.files.walked
        grouped = "_import_graphs" in vars(self) or any(need[0] in (TOGETHER, JOINED) for need in self.outcome_needs)
        imports: dict[str, tuple[str, ...]] = {}
        codes: dict[str, str] = {}
        read = {need[1] for need in self.outcome_needs if need[0] in _OF_FILES}
        for name, stamp in {**self.files.named, **walked}.items():
            if grouped and name in walked:
                imports[name] = self._imports_of_file(name)
            if name in read:
                codes[name] = self.files.code_digests(name, self._parts.get(name))
            text = self.files.digests[name] if self.files.is_unchanged(name) else self.files.content_digest(name) or ""
            self.files.release_text(name)
            # One that changed meanwhile the next run looks at anew.
            if stamp_at(self.files.absolute_path(name)) == stamp:
                size, written, changed, number = stamp
                files[name] = text, size, written, changed if changed < recent else -1, number
        outcomes = {name: entry for name, entry in self.outcomes.items() if name in files}
        used = sorted({index for needs, *_ in outcomes.values() for index in needs})
        place = {index: position for position, index in enumerate(used)}
        listed = {name: position for position, name in enumerate(files)}
        return {
            "files": [list(files), *([entry[column] for entry in files.values()] for column in range(5))],
            "imports": [imports.get(name) for name in files] if imports else [],
            "edges": self._edges_of({name: imports[name] for name in files if name in imports}),
            "codes": [codes.get(name, "") for name in files],
            "telling": self.telling,
            "earlier": self.earlier.encode_state(),
            "quiet": sorted(self.quiet & files.keys()),
            "outcomes": {
                name: [
                    [place[index] for index in needs],
                    found,
                    reason,
                    mark,
                ]
                for name, (needs, found, reason, mark) in outcomes.items()
            },
            "needs": [self._saved_need(self.outcome_needs[index], listed) for index in used],
            "found": {
                place[index]: [listed[name] for name in self.found[index]]
                for index in used
                if index in self.found and listed.keys() >= set(self.found[index])
            },
        }

    def _saved_need(self, need: tuple[str, ...], listed: Mapping[str, int]) -> int | tuple[str | int, ...]:
        """A need on a file, of which there are many, with the file's place among them."""
        if need[0] not in _OF_FILES or need[1] not in listed:
            return need
        return listed[need[1]] if need[0] == "file" else (need[0], listed[need[1]], *need[2:])

    # what changed

    def _drop_stale_answers(self) -> None:
        """Look at the whole project, and let go of what no longer holds."""
        if self.files.looked:
            return
        folders = self.files.walk_project()
        telling = self._folder_stamps(folders)
        if telling != self.telling:
            self.telling = telling
            self.earlier.forget_state()
            self.outcomes, self.outcome_needs, self.found, self.before = {}, [], {}, {}
            self.__dict__.pop("_need_numbers", None)
            self._dirty = True
        if self.files.walked == self.files.stamps:
            return
        every = {**self.files.stamps, **self.files.walked}
        changed = self._changed = [name for name in every if not self.files.is_unchanged(name)]
        if not changed:
            return
        self._dirty = True
        stale = self.quiet.intersection(changed) & self.files.stamps.keys()
        self.quiet -= stale
        for name in stale:
            self.earlier.replace_findings(name, [])
        moved = any(name not in self.files.stamps or self.files.current_stamp(name) is None for name in changed)
        among = set(changed)
        # What rests on a file sees its code. Of where that stands it may have told.
        self._named = tuple(map(os.path.basename, changed))
        self._edited = {name: self.files.code_changes(name) for name in changed if name in self.files.codes}
        self._dead = {
            index for index, need in enumerate(self.outcome_needs) if self._is_dead(index, need, among, moved)
        }
        for name, (needs, found, _, mark) in list(self.outcomes.items()):
            if name in among or not self._dead.isdisjoint(needs) or _mentions_files(found, self._named):
                del self.outcomes[name]
                self.before[name] = needs, mark
                self.earlier.replace_findings(name, found)

    def _is_dead(self, index: int, need: tuple[str, ...], changed: set[str], moved: bool) -> bool:
        """Return whether a dependency has changed. Results of searches are updated first."""
        if need[0] in _OF_FILES:
            return need[1] in changed and (need[1] not in self._edited or self._edited[need[1]].may_have_changed(need))
        if need[0] in (TOGETHER, JOINED):
            return not self._same_files(need[1], need[0] == JOINED)
        known = self.found.get(index)
        if known is None:
            return True
        if need[0] not in SEARCHES:
            if moved:
                self.found[index] = self._module_file(need)
            return self.found[index] != known
        have = set(known)
        gone = [name for name in changed if name in have and not self._file_holds(need, name)]
        new = [name for name in changed if name not in have and self._file_holds(need, name)]
        if gone or new:
            have = (have | set(new)).difference(gone)
            self.found[index] = [name for name in self.files.walked if name in have]
        return bool(gone or new)

    def _same_files(self, path: str, joined: bool) -> bool:
        """Return whether a file may run together with the same files as before."""
        before, after = self._import_graphs
        if before is after:
            return True
        one, other = (
            graph.files_transitively_together(path) if joined else graph.files_run_together(path)
            for graph in (before, after)
        )
        if (joined, one, other) not in self._same_group:
            self._same_group[joined, one, other] = before.paths_of_bits(one) == after.paths_of_bits(other)
        return self._same_group[joined, one, other]

    @cached_property
    def _import_graphs(self) -> tuple[ImportGraph, ImportGraph]:
        """The imports of the project as they were and as they are."""
        now = {name: self._imports_of_file(name) for name in self.files.walked}
        before = self._make_graph(self.imports, self._edges)
        return before, before if now == self.imports else self._make_graph(now)

    def _make_graph(
        self, imports: Mapping[str, tuple[str, ...]], edges: list[list[int]] | None = None
    ) -> ImportGraph:
        return ImportGraph(self.root, {self.files.absolute_path(name): found for name, found in imports.items()}, edges)

    def _edges_of(self, imports: Mapping[str, tuple[str, ...]]) -> list[list[int]]:
        """The edges of the graph of some imports, to be saved."""
        places = {self.files.absolute_path(name): place for place, name in enumerate(imports)}
        graph = self._import_graphs[1] if "_import_graphs" in vars(self) else self._make_graph(imports)
        if graph.imports.keys() != places.keys():
            graph = self._make_graph(imports)
        to = [places[path] for path in graph.paths]
        found = dict(zip(graph.paths, graph.import_edges, strict=True))
        return [sorted(to[one] for one in found[path]) for path in places]

    def _imports_of_file(self, name: str) -> tuple[str, ...]:
        if name in self.imports and self.files.is_unchanged(name):
            return self.imports[name]
        return parse_imports(self.files.file_contents(name) or b"")

    def _module_file(self, question: tuple[str, ...]) -> list[str]:
        from shardlint.model.project import Project

        found = Project(Path(self.root)).module_file(question)
        return [self.files.display_name(str(found))] if found is not None else []

    def _file_holds(self, question: tuple[str, ...], name: str) -> bool:
        text = self.files.file_contents(name) if name in self.files.walked else None
        return text is not None and search_holds(question, text)

    def _folder_stamps(self, folders: list[str]) -> list[Any]:
        found: list[Any] = [[place, change_time(place)] for place, _ in site_packages(self.root)]
        for path in folders:
            folder = self.files.tree.folder_contents(path)
            for name, stamp in (folder.telling if folder is not None else {}).items():
                found.append([f"{self.files.path_from_root(path)}/{name}", *stamp])
        return found


def _load_need(need: Any, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(need, int):
        return "file", names[need]
    kind, *said = need
    if said and isinstance(said[0], int):
        said[0] = names[said[0]]
    return tuple(map(str, (kind, *said)))


def _mentions_files(findings: list[Any], names: Iterable[str]) -> bool:
    """Return whether findings mention one of some files, in which lines may have moved."""
    said = json.dumps([finding[:-1] for finding in findings])  # without the files that each rests on
    return any(name in said for name in names)


def _is_parsable(data: bytes) -> bool:
    """Return whether Python can parse a file. For a False result only a check of the file can give the reason."""
    from shardlint.syntax.parse import NotParsed, check_parses

    try:
        check_parses(data.decode("utf-8"))
    except (NotParsed, UnicodeDecodeError):
        return False
    return b"coding" not in data[:200]


def _are_all_of_type(kind: type, values: Any) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= {kind}
