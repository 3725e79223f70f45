"""Which files of a project may run together: those that import a file, and all that these import.

Read off the bytes of files, for every file of a project is asked. What is imported under a name that no file seems
to have is each file whose path ends in it, for scripts extend `sys.path`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from shardlint.source.notebook import read_program
from shardlint.source.patterns import compile_lazily

SOURCE_FOLDERS = ("", "src", "lib", "python")
"""The folders of a root that its modules are looked for in."""
ANY = "*"
"""Among the imports of a file: it imports what the text does not name."""
_FOREIGN = frozenset(sys.stdlib_module_names) | {
    "jax",
    "jaxlib",
    "flax",
    "equinox",
    "haliax",
    "numpy",
    "optax",
}
_OTHERS = _FOREIGN | {"torch", "torchvision", "tensorflow", "keras", "transformers", "datasets", "diffusers", "scipy"}
_WORD = rb"[\w.\x80-\xff]"
_IMPORT = compile_lazily(rb"import(?![\w\x80-\xff])[ \t]*")
# How a statement begins, up to the word `import`.
_HEAD = compile_lazily(rb"(?:^|[;:])[ \t\f]*(?:from[ \t]*((?:\.[ \t]*)*" + _WORD + rb"*)[ \t]*)?$")
_LOOK_BACK = 200
_IN_BRACKETS = compile_lazily(rb"\(((?:[^()#]|#[^\n]*)*)\)")
_ON_LINE = compile_lazily(rb"[^\n;#]*")
_NAME = compile_lazily(_WORD + rb"+")
_DYNAMIC = compile_lazily(
    rb"(?:import_module|__import__|run_module|run_path|spec_from_file_location)\("
    rb"[ \t\n]*(?:(['\"])([A-Za-z_][\w.]*)\1[ \t\n]*[,)])?"
)
# A name of a module in a string, or the start of one that is put together.
_QUOTED = compile_lazily(rb"['\"]([A-Za-z_][\w.]*?)(\.\{|\.['\"]|['\"])")
_COMMENT = compile_lazily(rb"#[^\n]*")
# How many bits the known sets of files may have together before they are let go of.
_MOST_BITS = 500_000_000


def parse_imports(data: bytes) -> tuple[str, ...]:
    """The modules that a file may import, by what its bytes say: dotted names, relative ones with their dots.

    `from a import b` is `a.b`, for `b` may be a module. What ends in `.*` is all below a package.
    """
    found: set[bytes] = set()
    if b"import" in data:
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\\\n" in data:
            data = data.replace(b"\\\n", b" ")
        for match in _IMPORT.finditer(data):
            found.update(_imports_at_match(data, match))
    if b"import_" in data or b"run_" in data or b"spec_from" in data:
        found.update(_dynamic_imports(data))
    return tuple(sorted(name.decode("utf-8", "replace") for name in found))


def read_imports(path: Path) -> tuple[str, ...]:
    """The modules that a file may import; none of one that cannot be read."""
    return parse_imports(read_program(path) or b"")


def _imports_at_match(data: bytes, match: re.Match[bytes]) -> Iterator[bytes]:
    """Yield the modules and names imported by the statement around the word `import`, if it is one."""
    at = match.start()
    begin = data.rfind(b"\n", max(0, at - _LOOK_BACK), at) + 1 or max(0, at - _LOOK_BACK)
    head = _HEAD.search(data[begin:at])
    if head is None:
        return
    module = head[1]
    listed = _IN_BRACKETS.match(data, match.end()) if module is not None else None
    text = _COMMENT.sub(b"", listed[1]) if listed else _ON_LINE.match(data, match.end())[0]  # type: ignore[index]
    names = [name[0] for name in (_NAME.search(part) for part in text.split(b",")) if name is not None]
    if module is None:
        yield from names
        return
    module = module.replace(b" ", b"").replace(b"\t", b"")
    joint = b"" if module.endswith(b".") else b"."
    yield module
    yield from (module + joint + name for name in names)


def _dynamic_imports(data: bytes) -> Iterator[bytes]:
    """Yield the modules imported by calls such as `import_module(...)`. If a call names none, yield the names in the
    strings of the file.
    """
    hidden = False
    for match in _DYNAMIC.finditer(data):
        if match[2] is not None:
            yield match[2]
        hidden = hidden or match[2] is None
    if hidden:
        yield ANY.encode()
        for quoted in _QUOTED.finditer(data):
            yield quoted[1] if len(quoted[2]) == 1 else quoted[1] + b".*"


def imports_by_root_name(imports: Iterable[str], head: str, found: Callable[[str], bool]) -> bool:
    """Return whether a file imports modules in the project's root by the name of the root itself, that of its package.

    `lmpo.utils.configs` is utils/configs.py where the clone is called otherwise, or is put on the path as `lmpo`. At
    least two such modules must be there, so that `other.utils` is not taken for the project's.
    """
    if head in _OTHERS or found(head):
        return False
    rests = {name.partition(".")[2].removesuffix(".*") for name in imports if name.startswith(f"{head}.")}
    there = 0
    for rest in sorted(rests - {"", "*"}):
        if found(f"{head}.{rest}"):
            return False
        there += found(rest)
    return there > 1


class ImportGraph:
    """The files of a project and what each imports; `edges`, where they are known, as `edges` gave them."""

    def __init__(
        self, root: str, imports: Mapping[str, Iterable[str]], edges: Iterable[Iterable[int]] | None = None
    ) -> None:
        self.root = root.rstrip("/")
        self.paths = list(imports)
        self.imports = imports
        self._place = {path: place for place, path in enumerate(self.paths)}
        self._above: dict[int, int] = {}
        self._below: dict[int, int] = {}
        """By the bits of the files that import: what those import."""
        self._together: dict[int, int] = {}
        self._joined: dict[int, int] = {}
        self._resolved: dict[tuple[str, str], frozenset[int]] = {}
        self._tops: dict[str, str] = {}
        if edges is not None:
            self.import_edges = list(map(frozenset, edges))

    def files_run_together(self, path: str) -> int:
        """The files that may run in one program with a file, as bits by their places in `paths`.

        All of them for a file that is not among these.
        """
        place = self._place.get(path)
        if place is None:
            return self.all_files
        if place not in self._together:
            if len(self._together) * len(self.paths) > _MOST_BITS:
                for known in (self._above, self._below, self._together):
                    known.clear()
            above = self._reachable_places((place,), self._importers_of_places, self._above)
            self._above[place] = above
            if above not in self._below:
                hidden = above & self._files_with_hidden_imports
                self._below[above] = (
                    self.all_files
                    if hidden
                    else self._reachable_places(self._places_of_mask(above), self.import_edges, {})
                )
            self._together[place] = self._below[above]
        return self._together[place]

    def files_imported_by(self, path: str) -> int:
        """A file and what it imports, and what these import; all where one imports what its text does not name."""
        place = self._place.get(path)
        if place is None:
            return self.all_files
        found = self._reachable_places((place,), self.import_edges, {})
        return self.all_files if found & self._files_with_hidden_imports else found

    def is_module_known(self, folder: str, name: str) -> bool:
        """Return whether a module imported in a folder is a file of the project, or a library that is known by name."""
        return name.partition(".")[0] in _FOREIGN or any(True for _ in self._find_module_files(folder, name))

    def files_transitively_together(self, path: str) -> int:
        """The files that may run with a file, with one of those, and so on."""
        place = self._place.get(path)
        if place is None:
            return self.all_files
        if place not in self._joined:
            found = self._reachable_places((place,), self._edges_both_ways, {})
            meets = (
                self.all_files if found & self._files_with_hidden_imports else found
            )  # what a computed name imports may be any of them
            self._joined.update(dict.fromkeys(self._places_of_mask(found), meets))
        return self._joined[place]

    def imports_itself(self, importer: str, path: str) -> bool:
        """Return whether one file imports another directly, and not only through a third."""
        one, other = self._place.get(importer), self._place.get(path)
        return one is not None and other is not None and other in self.import_edges[one]

    def paths_of_bits(self, mask: int) -> frozenset[str]:
        """The paths that bits stand for."""
        return frozenset(self.paths[place] for place in self._places_of_mask(mask))

    def contains_path(self, mask: int, path: str) -> bool:
        """Return whether a file is in a set of files, given as bits."""
        return path not in self._place or bool(mask >> self._place[path] & 1)

    @cached_property
    def all_files(self) -> int:
        """Every file."""
        return (1 << len(self.paths)) - 1

    @cached_property
    def _files_with_hidden_imports(self) -> int:
        """The files that import what their text does not name: there is no telling what runs with them."""
        return sum(1 << place for place, path in enumerate(self.paths) if ANY in self.imports[path])

    @staticmethod
    def _places_of_mask(mask: int) -> Iterator[int]:
        digits = bin(mask)
        at = digits.rfind("1")
        while at >= 2:
            yield len(digits) - 1 - at
            at = digits.rfind("1", 0, at)

    @staticmethod
    def _reachable_places(start: Iterable[int], edges: list[frozenset[int]], known: Mapping[int, int]) -> int:
        found = 0
        todo = list(start)
        seen = set(todo)
        while todo:
            place = todo.pop()
            if found >> place & 1:
                continue
            found |= known.get(place, 1 << place)
            if place not in known:
                new = edges[place] - seen
                seen |= new
                todo += new
        return found

    @cached_property
    def import_edges(self) -> list[frozenset[int]]:
        """Return the imports of each file within the project, by the places of files in `paths`."""
        return [self._imported_places(place, path) for place, path in enumerate(self.paths)]

    @cached_property
    def _importers_of_places(self) -> list[frozenset[int]]:
        found: list[set[int]] = [set() for _ in self.paths]
        for place, targets in enumerate(self.import_edges):
            for target in targets:
                found[target].add(place)
        return list(map(frozenset, found))

    @cached_property
    def _edges_both_ways(self) -> list[frozenset[int]]:
        return [below | above for below, above in zip(self.import_edges, self._importers_of_places, strict=True)]

    def _imported_places(self, place: int, path: str) -> frozenset[int]:
        folder = path.rpartition("/")[0]
        found: set[int] = set()
        for name in self.imports[path]:
            if name == ANY:  # it may as well be any module of its package
                found.update(
                    self._places_inside_package(folder) if f"{folder}/__init__.py" in self._place else ()
                )
                continue
            # An absolute name stands for the same wherever the outermost package is the same.
            key = folder if name.startswith(".") else self._top_folder(folder), name
            if key not in self._resolved:
                self._resolved[key] = frozenset(self._find_module_files(folder, name))
            found |= self._resolved[key] or self._files_by_root_name(path, name)
        found.update(self._package_inits(folder))
        if _is_test(path):
            found.update(self._conftest_places(folder))
        found.discard(place)
        return frozenset(found)

    def _files_by_root_name(self, path: str, name: str) -> set[int]:
        """Return the files that a name may mean which begins with the name of the root itself.

        See `imports_by_root_name`.
        """
        head, _, rest = name.partition(".")
        if not head or not rest:
            return set()

        def exists_in_root(dotted: str) -> bool:
            inside = f"{self.root}/{dotted.replace('.', '/')}"
            return f"{inside}.py" in self._place or f"{inside}/__init__.py" in self._place

        return (
            set(self._find_module_files(self.root, rest))
            if imports_by_root_name(self.imports[path], head, exists_in_root)
            else set()
        )

    def _places_inside_package(self, folder: str) -> Iterator[int]:
        top = folder
        while f"{top.rpartition('/')[0]}/__init__.py" in self._place:
            top = top.rpartition("/")[0]
        yield from self._below_folder(top)

    def _below_folder(self, folder: str) -> Iterator[int]:
        inside = (item for item in self._place.items() if item[0].startswith(f"{folder}/"))
        return (place for path, place in inside if path.endswith(".py"))  # nobody imports a notebook

    def _package_inits(self, folder: str) -> Iterator[int]:
        """The `__init__.py` of a folder and of those around it: whoever imports a module runs them first."""
        while (place := self._place.get(f"{folder}/__init__.py")) is not None:
            yield place
            folder = folder.rpartition("/")[0]

    def _conftest_places(self, folder: str) -> Iterator[int]:
        while folder.startswith(self.root):
            place = self._place.get(f"{folder}/conftest.py")
            if place is not None:
                yield place
            if not folder:
                break
            folder = folder.rpartition("/")[0]

    def _find_module_files(self, folder: str, name: str) -> Iterator[int]:
        """The files that a name imported in a folder may stand for, and the packages around them."""
        whole = name.endswith(".*")
        name = name.removesuffix(".*")
        dotted = name.lstrip(".")
        level = len(name) - len(dotted)
        parts = dotted.split(".") if dotted else []
        if level:
            for _ in range(level - 1):
                folder = folder.rpartition("/")[0]
            bases = [folder]
            yield from self._package_inits(folder)
        else:
            bases = list(self._import_bases(folder))
        known = False
        for count in range(len(parts), 0, -1):
            for place in self._places_at_bases(bases, "/".join(parts[:count]), whole and count == len(parts)):
                known = True
                yield place
        if not known and parts and not level and parts[0] not in _FOREIGN:
            yield from self._files_by_path_ending(parts)

    def _places_at_bases(self, bases: list[str], relative: str, whole: bool) -> Iterator[int]:
        for base in bases:
            if whole:
                yield from self._below_folder(f"{base}/{relative}")
            for path in (f"{base}/{relative}.py", f"{base}/{relative}/__init__.py"):
                place = self._place.get(path)
                if place is not None:
                    yield place
                    yield from self._package_inits(path.rpartition("/")[0])
                    return

    def _import_bases(self, folder: str) -> Iterator[str]:
        """The folders that absolute names are looked for in, as `Project.resolve_module` does."""
        base = self._top_folder(folder)
        while base.startswith(self.root) and len(base) > len(self.root):
            yield base
            base = base.rpartition("/")[0]
        yield from (f"{self.root}/{inside}".rstrip("/") for inside in SOURCE_FOLDERS)

    def _top_folder(self, folder: str) -> str:
        """The folder that holds the outermost package that a folder is part of; itself where it is of none."""
        if folder not in self._tops:
            top = folder
            while f"{top}/__init__.py" in self._place:
                top = top.rpartition("/")[0]
            self._tops[folder] = top
        return self._tops[folder]

    def _files_by_path_ending(self, parts: list[str]) -> Iterator[int]:
        """Files whose path ends in a name, or in as much of its beginning as any does."""
        for count in range(len(parts), 0, -1):
            ending = "/" + "/".join(parts[:count])
            found = [
                place
                for path, place in self._paths_by_name.get(parts[count - 1], ())
                if path.endswith(ending)
            ]
            for place in found:
                yield place
                yield from self._package_inits(self.paths[place].rpartition("/")[0])
            if found:
                return

    @cached_property
    def _paths_by_name(self) -> dict[str, list[tuple[str, int]]]:
        """The files by the last part of what they are imported as, with the path up to it."""
        found: dict[str, list[tuple[str, int]]] = {}
        for path, place in self._place.items():
            module = path.removesuffix("/__init__.py").removesuffix(".py")
            found.setdefault(module.rpartition("/")[2], []).append((module, place))
        return found


def _is_test(path: str) -> bool:
    """Return whether pytest may load a file together with the conftests above it."""
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
