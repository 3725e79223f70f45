"""Which fixtures a change can touch: those whose own files changed, or a module that they import.

Nothing is run to find out. What the text does not tell (an import by a computed name, a module that is no file of the
project, a changed file that is no Python) counts as touched.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardlint.engine.changes.git import working_tree_top
from shardlint.engine.changes.revision_files import differing_files
from shardlint.source.find import find_python_files
from shardlint.source.import_graph import ImportGraph, parse_imports, read_imports
from shardlint.source.notebook import read_program
from shardlint.source.patterns import compile_lazily
from shardlint.verify.golden import golden_path
from shardlint.verify.settings_fixtures import read_fixtures

_REFERENCE = compile_lazily(r"['\"]([A-Za-z_][\w.]*):[A-Za-z_][\w.]*['\"]")
# What a program does not read: a change in one touches no fixture.
_PROSE = frozenset((".md", ".rst", ".png", ".svg", ".jpg", ".jpeg", ".gif", ".pdf", ".ipynb", ".css", ".html"))
_NAMES = frozenset((".gitignore", ".gitattributes", "LICENSE", "CODEOWNERS", "NOTICE", "AUTHORS", ".mailmap"))


@dataclass(frozen=True)
class Touched:
    """`files` are those to verify, with the names of fixtures where not all of a file are touched; `left` are those
    that are not (a file, where its fixtures are not known by name); `why` says what changed that may touch any.
    """

    files: dict[Path, list[str]]
    left: list[str]
    why: str = ""


def touched_fixtures(files: Mapping[Path, Sequence[str]], revision: str, folder: Path) -> Touched:
    """The fixtures of some files that a change since a revision can touch.

    Raises `BadSettings` where git cannot say what changed.
    """
    top = working_tree_top(folder)
    changed = [Path(os.path.realpath(path)) for path in differing_files(revision, top)]
    unknown = next((path for path in changed if _has_unknown_dependents(path, files)), None)
    if unknown is not None:
        gone = "" if unknown.exists() else ", which was deleted"
        why = f"{os.path.relpath(unknown, folder)}{gone}: every program may depend on it"
        return Touched({file: list(names) for file, names in files.items()}, [], why)
    parts = {file: _fixture_texts(file) for file in files}
    graph = _graph_with_fixtures(top, parts)
    python = {str(path) for path in changed}
    kept: dict[Path, list[str]] = {}
    left: list[str] = []
    for file, names in files.items():
        path = os.path.realpath(file)
        whole = path in python or any(_is_golden_of(file, each) for each in changed)
        for name, part in parts[file].items():
            if names and name and name not in names:
                continue
            if whole or _is_touched(f"{path}::{name}", part, graph, python):
                kept.setdefault(file, []).extend([name] if name else names)
            else:
                left.append(f"{file}::{name}" if name else str(file))
        every = [name for name in parts[file] if name]
        if not names and (whole or kept.get(file) == every):
            kept[file] = []
    return Touched(kept, left)


def _is_touched(path: str, part: str, graph: ImportGraph, changed: set[str]) -> bool:
    folder = path.rpartition("::")[0].rpartition("/")[0]
    if not all(graph.is_module_known(folder, module) for module in _REFERENCE.findall(part)):
        return True
    return bool(graph.paths_of_bits(graph.files_imported_by(path)) & changed)


def _has_unknown_dependents(path: Path, files: Mapping[Path, Sequence[str]]) -> bool:
    """Return whether the dependents of a changed file are unknown."""
    if path.suffix in _PROSE or path.name in _NAMES:
        return False
    if any(path == Path(os.path.realpath(file)) or _is_golden_of(file, path) for file in files):
        return path.name == "pyproject.toml"  # it has the releases too
    return path.suffix != ".py" or not path.exists()


def _is_golden_of(file: Path, path: Path) -> bool:
    folder = Path(os.path.realpath(golden_path(f"{file}::x").parent))
    return path.is_relative_to(folder)


def _fixture_texts(file: Path) -> dict[str, str]:
    """The fixtures of a file and the text each rests on; under no name the whole file, where they are not plain."""
    if file.suffix == ".toml":
        return {name: repr(fixture) for name, fixture in read_fixtures(file).items()}
    text = (read_program(file) or b"").decode("utf-8", "replace")
    return dict(_plain_fixtures(text)) or {"": text}


def _plain_fixtures(text: str) -> Iterator[tuple[str, str]]:
    """Each `NAME = Fixture(...)` with the statements it needs; nothing where the file does more than that."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return
    made: dict[str, ast.stmt] = {}
    fixtures: list[str] = []
    always: list[ast.stmt] = []
    for one in body:
        names = _names_made_by(one)
        if names is None:
            return
        for name in names:
            made[name] = one
        value = getattr(one, "value", None)
        if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "Fixture":
            fixtures += names
        elif "Fixture(" in ast.unparse(one) and not isinstance(one, ast.Expr):
            return
        if isinstance(one, ast.Import | ast.ImportFrom) and not names:
            always.append(one)
    for name in fixtures:
        yield name, "\n".join(ast.unparse(one) for one in [*always, *_needed_statements(name, made)])


def _names_made_by(statement: ast.stmt) -> list[str] | None:
    """The names that a statement makes; None of one that does more."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        names = [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
        return None if "*" in names else names
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return [] if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) else None


def _needed_statements(name: str, made: Mapping[str, ast.stmt]) -> list[ast.stmt]:
    """The statement that makes a name, and those that make what it speaks of."""
    found: dict[int, ast.stmt] = {}
    waiting = [name]
    while waiting:
        one = made.get(waiting.pop())
        if one is None or id(one) in found:
            continue
        found[id(one)] = one
        waiting += [node.id for node in ast.walk(one) if isinstance(node, ast.Name)]
    return list(found.values())


def _graph_with_fixtures(top: Path, parts: Mapping[Path, Mapping[str, str]]) -> ImportGraph:
    """The imports of the project's files, and those of each fixture as if it were a file beside its own."""
    imports: dict[str, tuple[str, ...]] = {}
    for file in find_python_files([top]).file_paths:
        if file.suffix == ".py":
            imports[os.path.realpath(file)] = read_imports(file)
    for file, fixtures in parts.items():
        for name, text in fixtures.items():
            named = tuple(_REFERENCE.findall(text))
            imports[f"{os.path.realpath(file)}::{name}"] = (*parse_imports(text.encode()), *named)
    return ImportGraph(str(top), imports)
