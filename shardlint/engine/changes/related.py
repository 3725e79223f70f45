"""Which files of a project a file may concern: those that may run in one program with it.

What each file imports is kept from run to run: a file that nothing imports and that imports nothing of its project is
known to stand alone without reading another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardlint.source.find import survey
from shardlint.source.import_graph import ANY, ImportGraph, imports_of
from shardlint.source.notebook import read_program
from shardlint.source.store import digest

if TYPE_CHECKING:
    from shardlint.source.store import Store
    from shardlint.source.tree import Tree

_Known = dict[str, tuple[list[int], list[str]]]


def related(root: str, files: Iterable[str], tree: Tree, store: Store | None = None) -> frozenset[str]:
    """The files of a project that run together with some of it, by absolute path; those themselves left out.

    What files import is kept in the store, if there is one, with the last answer.
    """
    named = sorted(set(files))
    name = f"{digest(f'imports {root}'.encode())}.json"
    data = (store.load(name) if store is not None else None) or {}
    known = _loaded(data)
    stamps, _ = survey(Path(root), tree)
    found: _Known = {}
    for path, stamp in stamps.items():
        entry = known.get(path)
        same = entry is not None and tuple(entry[0]) == tuple(stamp)
        found[path] = entry if entry is not None and same else (list(stamp), list(_read(path)))
    imports = {path: tuple(imported) for path, (_, imported) in found.items()}
    before = {path: tuple(imported) for path, (_, imported) in known.items()}
    if data.get("named") == named and imports == before and imports.keys() >= set(named):
        answer = frozenset(map(str, data["related"]))
    else:
        answer = _together(root, frozenset(named), imports)
    if store is not None and (found != known or data.get("named") != named):
        store.save(name, {"imports": found, "named": named, "related": sorted(answer)})
    return answer


def _together(root: str, named: frozenset[str], imports: dict[str, tuple[str, ...]]) -> frozenset[str]:
    for path in named:
        if path not in imports:
            imports[path] = _read(path)
    if all(_alone(path, imports) for path in named):
        return frozenset()
    hidden = [path for path, found in imports.items() if ANY in found]
    if any(path.endswith(".py") and _one_package(other, path, imports) for other in hidden for path in named):
        return frozenset(imports) - named  # what imports any module of a package may run with all there are
    graph = ImportGraph(root, imports)
    found: set[str] = set()
    for path in named:
        found |= graph.names(graph.together(path))
    return frozenset(found) - named


def _alone(path: str, imports: Mapping[str, Iterable[str]]) -> bool:
    """Whether nothing of the project can import a file, and it can import nothing of the project."""
    name = _module(path)
    stems = {_module(other) for other in imports if other != path}
    if name == "conftest" or path.endswith(f"{os.sep}__init__.py"):  # run with what lies beside them
        return False
    if any(part in stems or part in ("", ANY) for one in imports[path] for part in one.split(".")):
        return False
    around = frozenset(path.split(os.sep)[:-1])
    for other, found in imports.items():
        for one in found:
            if name in one and other != path and name in one.split("."):
                return False
            if one == ANY and _one_package(other, path, imports):
                return False
            if one.endswith(f".{ANY}") and one.split(".")[-2] in around:
                return False
    return True


def _one_package(other: str, path: str, imports: Mapping[str, Iterable[str]]) -> bool:
    """Whether a file lies in the package of another, or below it."""
    top = None
    folder = os.path.dirname(other)
    while f"{folder}{os.sep}__init__.py" in imports:
        top, folder = folder, os.path.dirname(folder)
    return top is not None and path.startswith(top + os.sep)


def _module(path: str) -> str:
    folder, _, name = path.rpartition(os.sep)
    stem = name.partition(".")[0]
    return os.path.basename(folder) if stem == "__init__" else stem


def _loaded(data: dict[str, Any]) -> _Known:
    try:
        return {
            str(path): ([int(one) for one in stamp], [str(one) for one in imported])
            for path, (stamp, imported) in data.get("imports", {}).items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def _read(path: str) -> tuple[str, ...]:
    return imports_of(read_program(Path(path)) or b"")
