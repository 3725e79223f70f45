"""Which files hold fixtures, from paths on the command line. Nothing of theirs is run here, and no jax is imported."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from shardlint.config.folders import find_settings
from shardlint.source.notebook import read_program
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.settings_fixtures import has_fixtures, read_fixtures

_FIXTURE = ("shardlint.verify.Fixture", "shardlint.verify.fixture.Fixture")


def fixture_files(paths: Sequence[str]) -> dict[Path, list[str]]:
    """Files that may hold fixtures, each with the fixture names asked for (none means all).

    A path is a Python file or a settings file, `FILE::NAME`, or a directory: of that, the Python files that mention
    `shardlint.verify`, and the settings file at its top. Without paths, those of the working directory and the
    settings that govern it.

    Raises `CannotRun` for a path that is not there and when no file is found, `BadSettings` for broken fixtures in a
    settings file.
    """
    files: dict[Path, list[str]] = {}
    for text in paths or ["."]:
        place, _, name = text.partition("::")
        path = Path(place)
        if not os.path.exists(path):
            raise CannotRun(f"{place}: no such file or directory")
        if os.path.isdir(path):
            for file in fixture_files_below(path, governing=not paths):
                files.setdefault(file, [])
        elif name and files.get(path) != []:
            files.setdefault(path, []).append(name)
        else:
            files[path] = []
    for file in files:
        if file.suffix == ".toml":
            read_fixtures(file)  # so that what is wrong in it is told before anything starts
    if not files:
        raise CannotRun(
            f"no fixtures: no file below {shlex.join(paths or ['.'])} mentions shardlint.verify, and the "
            "settings declare none"
        )
    return files


def fixture_files_below(folder: Path, governing: bool = False) -> Iterator[Path]:
    """The files of a directory that may hold fixtures; with `governing`, settings further up count too."""
    from shardlint.source.find import find_python_files

    settings = find_settings(folder).path
    if settings is not None and has_fixtures(settings):
        if settings.parent == folder.resolve():
            yield folder / settings.name
        elif governing:
            yield settings
    for file in find_python_files([folder]).file_paths:
        if file.suffix == ".py" and _mentions_verify(read_program(file) or b""):
            yield file


def makes_fixtures(source: bytes) -> bool:
    """Return whether a module calls `Fixture` outside its functions and classes, so that importing it makes fixtures.

    A module that has Python's syntax wrong does too, where it mentions `shardlint.verify`: it is for whoever
    imports it to say what is wrong.
    """
    return first_fixture(source) is not None


def first_fixture(source: bytes) -> int | None:
    """The line of the first such call, 0 in a module that has Python's syntax wrong; None where there is none."""
    if not _mentions_verify(source):
        return None
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return 0
    imported: dict[str, str] = {}
    for node in _outside_functions(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                imported |= {alias.asname: alias.name} if alias.asname else {first: first}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call):
            first, dot, rest = _dotted_name(node.func).partition(".")
            if imported.get(first, "") + dot + rest in _FIXTURE:
                return node.lineno
    return None


def _mentions_verify(source: bytes) -> bool:
    return b"shardlint.verify" in source or b"from shardlint import" in source


def _outside_functions(module: ast.Module) -> Iterator[ast.AST]:
    """Every node that runs when a module is imported, in order."""
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        yield node
        waiting += reversed(list(ast.iter_child_nodes(node)))


def _dotted_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted_name(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""
