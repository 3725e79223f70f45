"""The files of the checked project: found on demand, parsed once, linked by import."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from shardlint.config.folders import MARKERS, PACKAGES
from shardlint.model.mesh.configuration import Configurations, configuration_files
from shardlint.model.needs import Memo, Needs
from shardlint.source.decoding import decode_file
from shardlint.source.find import survey_folder
from shardlint.source.import_graph import SOURCE_FOLDERS, ImportGraph, parse_imports
from shardlint.source.notebook import read_program
from shardlint.source.patterns import compile_lazily
from shardlint.source.screen import Texts
from shardlint.source.searches import BOUND, JOINED, PART, SAYS, TOGETHER, Question, search_holds
from shardlint.source.text import NOTEBOOKS, Source, Unreadable, read_bytes, size_limit
from shardlint.source.timing import timed
from shardlint.source.tree import Stamp, Tree
from shardlint.source.word_index import WordIndex
from shardlint.source.words import names_bound_to_calls
from shardlint.syntax import FileFacts, NotParsed, read_facts
from shardlint.syntax.parts import OUTLINE, Part

# The files of a larger project are read for each search: an index of their words would take too much memory.
_INDEX_BYTES = 400_000_000
# A name in more files than this is no use as evidence: some of them will not tell.
_SEARCH_FILES = 60
# One file asks little and is served by searching; a whole project asks thousands of times, and an index pays. Sooner
# where there are many files to be read for each search.
_SEARCHES_BEFORE_INDEX = 24
_READS_BEFORE_INDEX = 10_000
# An index stands until so many files were changed after it was made.
_OUTDATED = 64
# What files hold is kept up to this many bytes: a project is searched dozens of times.
_KEPT_TEXTS = 24_000_000
_WORD = compile_lazily(r"[A-Za-z_][A-Za-z0-9_]*")
# What an index of words answers, and of that what the words alone do not decide.
_BY_WORDS = ("named", "starred", "attribute", "anywhere", "imported")
_ASIDE = ("attribute", "imported")

Answers = Mapping[Question, list[Path]]


class Project:
    """All Python files below a root. Text given by the caller (an editor's buffer) stands in for the file's own."""

    def __init__(
        self,
        root: Path,
        overlay: dict[Path, Source] | None = None,
        by_part: bool = False,
        needs: Needs | None = None,
        graph: Callable[[], ImportGraph | None] | None = None,
    ) -> None:
        self.root = root
        self._graph = graph
        """Which files import which, where somebody may know it already."""
        self.by_part = by_part
        """Whether it is noted what of a file was looked at, for whoever keeps what was found."""
        self._overlay = overlay or {}
        self._facts: dict[Path, FileFacts | None] = {}
        self._sources: dict[Path, tuple[str, ...]] = {}
        self._tops: dict[Path, Path] = {}
        self._code: dict[Path, bytes] = {}
        self._room = _KEPT_TEXTS
        self._searches = self._reads = self._before_weighing = 0
        self._outdated: frozenset[Path] = frozenset()
        """The files that changed since the index of words was made."""
        self.needs = needs if needs is not None else Needs()
        self._mapping: Memo[Path, list[Path]] = Memo(self.needs)
        self._mappers: Memo[Path, list[Path]] = Memo(self.needs)
        self._bound_with: Memo[tuple[Path, tuple[str, ...]], frozenset[str]] = Memo(self.needs)
        self._tests: dict[Path, bool] = {}
        self.answers: dict[Question, list[Path]] = {}
        """What searches of the project's texts found. They may be known before anything is read."""
        self.members: dict[Question, frozenset[str]] = {}
        """The same as sets, of questions that were put before an edit."""
        self.parts: dict[Path, tuple[Part, ...]] = {}
        """The parts of every file that was parsed, where they are noted."""
        self.lent: dict[Path, FileFacts] = {}
        """What others have parsed of files that are still the same (see `program.again`); theirs to let go of."""

    def facts(self, path: Path) -> FileFacts | None:
        """The facts of a file, or None where it cannot be read or parsed: then nothing is known through it."""
        if path not in self._facts:
            try:
                lent, own = self.lent.get(path), self._overlay.get(path)
                if lent is not None and own is None:
                    self._keep_facts(path, lent)
                else:
                    self._parse_file(path, own or decode_file(path, read_bytes(path)))
            except (Unreadable, NotParsed):
                self._facts[path] = None
        facts = self._facts[path]
        self.needs.note_need(path if facts is None else (PART, str(path), OUTLINE))
        return facts

    def _parse_file(self, path: Path, source: Source) -> FileFacts:
        lent = self.lent.get(path)
        return self._keep_facts(
            path, lent if lent is not None and lent.is_of(source) else read_facts(source, path)
        )

    def _keep_facts(self, path: Path, facts: FileFacts) -> FileFacts:
        if self.by_part:
            facts.looked.report_to(self.needs.note_need)
            self.parts[path] = facts.looked.parts_in_order
        self._facts[path] = facts
        return facts

    def parse_checked(self, source: Source, path: Path) -> FileFacts:
        """The facts of a file whose text the caller has read. Raises `NotParsed`."""
        known = self._facts.get(path)
        facts = known if known is not None and known.is_of(source) else self._parse_file(path, source)
        self.needs.note_need((PART, str(path), OUTLINE))
        return facts

    def is_heavier_than(self, most: int) -> bool:
        """Return whether the parsed files take more than about `most` bytes of memory. They are measured only now and
        then.
        """
        self._before_weighing -= 1
        if self._before_weighing >= 0:
            return False
        self._before_weighing = len(self._facts) // 8  # each is weighed a few times, however many there are
        return self.parsed_bytes > most

    @property
    def parsed_bytes(self) -> int:
        """About how many bytes of memory the parsed files take."""
        return sum(facts.memory_bytes for facts in self._facts.values() if facts is not None)

    def parsed_files(self) -> dict[Path, FileFacts]:
        """Return the files that are parsed by now, or were lent."""
        own = {path: facts for path, facts in self._facts.items() if facts is not None}
        return {**self.lent, **own}

    def forget_parsed(self) -> None:
        """Let go of all parsed files."""
        for path, facts in self._facts.items():
            if facts is not None and facts is not self.lent.get(path):
                facts.break_cycles()
        self._facts.clear()

    def inherit_files(self, before: Project, changed: Collection[Path]) -> None:
        """Take over what another state of the project has read, and has indexed, of the files that are the same."""
        self._code = {path: code for path, code in before._code.items() if path not in changed}
        self._room = before._room + sum(len(code) for path, code in before._code.items() if path in changed)
        outdated = before._outdated.union(changed)
        if "_word_index" in vars(before) and len(outdated) <= _OUTDATED:
            self._word_index, self._outdated = before._word_index, outdated

    @cached_property
    def _survey_files(self) -> tuple[dict[str, Stamp], tuple[Path, ...]]:
        tree = Tree()
        files, folders = survey_folder(self.root, tree)
        return files, configuration_files(self.root, folders, tree)

    @cached_property
    def configurations(self) -> Configurations:
        """The configuration files of the project."""
        return Configurations(self._survey_files[1])

    @cached_property
    def files(self) -> dict[Path, int]:
        """Every Python file of the project with its size, found when first asked for."""
        found = {Path(path): stamp[0] for path, stamp in self._survey_files[0].items()}
        for path, source in self._overlay.items():  # what was never saved
            if path not in found and self.root in path.parents and not os.path.exists(path):
                found[path] = len(source.text)
        return found

    @cached_property
    def _fits_in_index(self) -> bool:
        return sum(size for path, size in self.files.items() if size <= size_limit(path)) <= _INDEX_BYTES

    def _file_contents(self) -> Iterator[tuple[Path, bytes]]:
        """Yield the contents of the files, one at a time, because together they may be large."""
        for path in self.files:
            self._reads += 1
            yield path, self.bytes_of(path)

    def bytes_of(self, path: Path) -> bytes:
        """Return the current contents of a file; empty if it cannot be read."""
        if path in self._overlay:
            return self._overlay[path].text.encode()
        code = self._code.get(path)
        if code is None:
            code = read_program(path) or b""
            if path.suffix in NOTEBOOKS or len(code) < self._room:  # code of notebooks is hard to get at
                self._code[path] = code
                self._room -= len(code)
        return code

    def files_importing(self, path: Path, name: str, every: bool = False) -> Iterator[FileFacts | None]:
        """Other files that may import `name` from the file: they run with it and hold both words, or a star.

        None when there are too many to read. Where `every` one is needed also those that do not run with
        it, and None for one that cannot be read.
        """
        stem = path.parent.name if path.stem == "__init__" else path.stem
        found = dict.fromkeys(
            (*self._all_files_holding(("named", name, stem)), *self._all_files_holding(("starred", stem)))
        )
        yield from self._read_files(
            list(found) if every else self._files_running_with(path, list(found)), path, every
        )

    def files_with_attribute(self, file: FileFacts, name: str) -> Iterator[FileFacts | None]:
        """Files that run with one and in which `.name` stands, the given one first. None when they are too many."""
        yield file
        yield from self._read_files(
            self._files_running_with(file.path, self._all_files_holding(("attribute", name))), file.path
        )

    def files_calling(self, path: Path, names: tuple[str, ...]) -> Iterator[FileFacts | None]:
        """Files that run with one, tests aside, in which `name(` stands for one of the names.

        None when there are too many to read.
        """
        found = self._files_running_with(path, self._all_files_holding(("calling", *names)))
        yield from self._read_files([path for path in found if not self.is_test(path)], None)

    def files_holding(self, path: Path, texts: tuple[str, ...], joined: bool = False) -> Iterator[FileFacts | None]:
        """Files that run with one (or are `joined` to it) and hold one of the texts, however many.

        None for a file that cannot be read.
        """
        yield from self._read_files(
            self._files_running_with(path, self._all_files_holding(("holding", *texts)), joined), None, every=True
        )

    def paths_holding(self, path: Path, texts: tuple[str, ...]) -> list[Path]:
        """The files of `holding`, for whoever does not look into them."""
        return self._files_running_with(path, self._all_files_holding(("holding", *texts)))

    def mapping_files(self, path: Path) -> list[Path]:
        """The other files that run with one and hold `shard_map` or `pmap`, tests aside."""
        return self._mapping.get_or_make(path, lambda: self._found_mapping(path))

    def _found_mapping(self, path: Path) -> list[Path]:
        found = self._files_running_with(path, self._all_files_holding(("holding", "shard_map", "pmap", "in_specs")))
        return [one for one in found if one != path and not self.is_test(one)]

    def mapping_importers(self, path: Path) -> list[Path]:
        """The files that import one and hold `shard_map` or `pmap`, tests aside; none of one that does not name jax."""
        return self._mappers.get_or_make(path, lambda: self._found_mappers(path))

    def files_mapping_functions(self, path: Path) -> list[Path]:
        """The files that map functions of one, or where it maps some, that may call what it maps; tests aside."""
        if not any(Texts(self.bytes_of(path))[text] for text in (b"shard_map", b"pmap")):
            return self.mapping_importers(path)
        others = self._files_running_with(path, self._all_files_holding(("holding", "jax")))
        return [one for one in others if one != path and not self.is_test(one)]

    def _found_mappers(self, path: Path) -> list[Path]:
        others = self.mapping_files(path)
        near = [one for one in others if self.import_graph.imports_itself(str(one), str(path))] if others else []
        if not near:
            return []
        about = Texts(self.bytes_of(path))[b"jax"]
        self.needs.note_need((SAYS, str(path), "jax", "1" if about else ""))
        return near if about else []

    def names_bound_to_calls(self, path: Path, calls: tuple[str, ...]) -> frozenset[str]:
        """Names that a file may bind with what some calls give (`f(`): by its text alone, which need not parse."""
        return self._bound_with.get_or_make((path, calls), lambda: self._found_bound(path, calls))

    def _found_bound(self, path: Path, calls: tuple[str, ...]) -> frozenset[str]:
        found = names_bound_to_calls(self.bytes_of(path).decode("utf-8", "replace"), calls)
        self.needs.note_need((BOUND, str(path), ",".join(calls), ",".join(sorted(found))))
        return found

    def unreadable_files(self, path: Path, texts: tuple[str, ...], joined: bool = False) -> list[Path]:
        """The files of `holding` that cannot be read as Python."""
        found = self._files_running_with(path, self._all_files_holding(("holding", *texts)), joined)
        return [one for one in found if self.facts(one) is None]

    def is_test(self, path: Path) -> bool:
        """Return whether a file is a test, by its name or a folder's."""
        if path not in self._tests:
            parts, root = path.parts, self.root.parts
            inside = parts[len(root) :] if parts[: len(root)] == root else parts
            self._tests[path] = any(one.startswith(("test", "conftest")) or one.endswith("_test.py") for one in inside)
        return self._tests[path]

    def is_named_anywhere(self, path: Path, text: str) -> bool:
        """Return whether a file or any that runs with it holds a dotted name."""
        return self._is_there(path, ("anywhere", text))

    def is_text_in_files(self, path: Path, *texts: str) -> bool:
        """Return whether a file or any that runs with it holds one of some texts.

        A text that begins with `(?` is a regular expression.
        """
        return self._is_there(path, ("holding", *texts))

    def paths_naming(self, path: Path, text: str) -> list[Path]:
        """The files that run with one and hold a dotted name."""
        return self._files_running_with(path, self._all_files_holding(("anywhere", text)))

    def is_module_imported(self, path: Path, module: str, joined: bool = False) -> bool:
        """Return whether a file or any that runs with it (or is `joined` to it) imports a module."""
        return self._is_there(path, ("imported", module), joined)

    def file_set_number(self, path: Path, joined: bool = False) -> int:
        """A name for the set of files that may run in one program with a file.

        These are the files that import it and all that these import. Folders do not count. `joined` are also those
        that may run with one of them, and so on: what must change in all of them or in none.
        """
        self.needs.note_need((JOINED if joined else TOGETHER, str(path)))
        with timed("searching the project"):
            return (
                self.import_graph.files_transitively_together(str(path))
                if joined
                else self.import_graph.files_run_together(str(path))
            )

    @cached_property
    def import_graph(self) -> ImportGraph:
        """Which files import which."""
        known = self._graph() if self._graph is not None and not self._overlay else None
        return known or ImportGraph(
            str(self.root), {str(path): parse_imports(data) for path, data in self._file_contents()}
        )

    def _is_there(self, path: Path, question: Question, joined: bool = False) -> bool:
        found = self._all_files_holding(question)
        if path in found:
            return True
        mask = self.file_set_number(path, joined) if found else 0
        return any(self.import_graph.contains_path(mask, str(other)) for other in found)

    def _files_running_with(self, path: Path, paths: list[Path], joined: bool = False) -> list[Path]:
        """Of some files those that run with one."""
        if all(other == path for other in paths):
            return paths
        mask = self.file_set_number(path, joined)
        return [other for other in paths if self.import_graph.contains_path(mask, str(other))]

    def _all_files_holding(self, question: Question) -> list[Path]:
        """The files of the project of which `holds` is true."""
        self.needs.note_need(question)
        if question not in self.answers:
            with timed("searching the project"):
                self._find_answer(question)
        return self.answers[question]

    def _find_answer(self, question: Question) -> None:
        found = self._search_index(question)
        if found is None:
            found = (path for path, data in self._file_contents() if search_holds(question, data))
        self.answers[question] = list(found)

    def _search_index(self, question: Question) -> Iterable[Path] | None:
        """The same by an index of words, once many have been asked for; None where that does not tell."""
        kind, *said = question
        if kind not in _BY_WORDS or not self._fits_in_index or not all(map(_WORD.fullmatch, said)):
            return None
        self._searches += 1
        seldom = self._searches <= _SEARCHES_BEFORE_INDEX and self._reads < _READS_BEFORE_INDEX
        if seldom and "_word_index" not in vars(self):
            return None
        found = [
            path
            for path in self._word_index.files_with_words(said, kind == "starred")
            if path not in self._outdated
        ]
        if kind in _ASIDE:
            found = [path for path in found if search_holds(question, self.bytes_of(path))]
        changed = [
            path
            for path in self._outdated
            if path in self.files and search_holds(question, self.bytes_of(path))
        ]
        if not changed:
            return found
        members = {*found, *changed}
        return [path for path in self.files if path in members]

    @cached_property
    def _word_index(self) -> WordIndex:
        return WordIndex(self._file_contents())

    def _read_files(
        self, paths: list[Path], but: Path | None, every: bool = False
    ) -> Iterator[FileFacts | None]:
        if len(paths) > _SEARCH_FILES and not every:
            yield None
            return
        for path in paths:
            facts = self.facts(path) if path != but else None
            if facts is not None or (every and path != but):
                yield facts

    def module_name(self, path: Path) -> str:
        """The dotted name a file is imported by, from the packages around it."""
        parts = [] if path.stem == "__init__" else [path.stem]
        folder = path.parent
        while os.path.isfile(folder / "__init__.py"):
            parts.append(folder.name)
            if folder.parent == folder:
                break
            folder = folder.parent
        return ".".join(reversed(parts))

    def resolve_module(self, dotted: str, importer: Path) -> Path | None:
        """The project's file for an absolute module name, seen from the file that imports it."""
        return self._find_module(("module", str(self._top_folder(importer.parent)), dotted))

    def module_in_root(self, dotted: str) -> Path | None:
        """The project's file for a module name, seen from the root."""
        return self._find_module(("module", str(self.root), dotted))

    @property
    def is_application(self) -> bool:
        """True if the root is that of a project that nothing installs, so that no other project calls its functions."""
        marker = self._find_module(("marker",))
        return marker is not None and marker.name not in PACKAGES

    def _find_module(self, question: Question) -> Path | None:
        self.needs.note_need(question)
        if question not in self.answers:
            found = self.module_file(question)
            self.answers[question] = [found] if found is not None else []
        return next(iter(self.answers[question]), None)

    def module_file(self, question: Question) -> Path | None:
        """The file of a module, by absolute name from a package's folder or by relative name from a file's.

        Of the question for a marker: what marks the root.
        """
        if question[0] == "marker":
            return next((self.root / name for name in MARKERS if os.path.exists(self.root / name)), None)
        if question[0] == "module":
            return self._module_by_name(question[2], Path(question[1]))
        return self._relative_module(Path(question[1]), int(question[2]), question[3])

    def _top_folder(self, folder: Path) -> Path:
        """The folder that holds the outermost package a folder is part of."""
        if folder not in self._tops:
            top = folder
            while os.path.isfile(top / "__init__.py") and top.parent != top:
                top = top.parent
            self._tops[folder] = top
        return self._tops[folder]

    def _module_by_name(self, dotted: str, top: Path) -> Path | None:
        if not dotted:
            return None
        relative = dotted.replace(".", "/")
        if top not in self._sources:
            self._sources[top] = self._import_bases(top)
        for base in self._sources[top]:
            for candidate in (f"{base}/{relative}.py", f"{base}/{relative}/__init__.py"):
                # As strings: most names are those of libraries, and paths of them take longer than the question.
                if os.path.isfile(candidate) or (self._overlay and Path(candidate) in self._overlay):
                    return Path(candidate)
        return None

    def _import_bases(self, top: Path) -> tuple[str, ...]:
        """The folders in which absolute names are looked for, in order."""
        # A script's own folder, then the folders above it up to the root (namespace packages), then usual source roots.
        chain = [top]
        while top != self.root and self.root in top.parents:
            top = top.parent
            chain.append(top)
        return tuple(dict.fromkeys(str(base) for base in (*chain, *(self.root / one for one in SOURCE_FOLDERS))))

    def resolve_relative(self, importer: Path, level: int, dotted: str) -> Path | None:
        """The project's file for a relative import (`from ..a import b`: level 2, dotted "a")."""
        return self._find_module(("relative", str(importer.parent), str(level), dotted))

    def _relative_module(self, folder: Path, level: int, dotted: str) -> Path | None:
        for _ in range(level - 1):
            folder = folder.parent
        base = folder / dotted.replace(".", "/") if dotted else folder
        for candidate in (base.with_suffix(".py") if dotted else None, base / "__init__.py"):
            if candidate is not None and (candidate in self._overlay or os.path.isfile(candidate)):
                return candidate
        return None
