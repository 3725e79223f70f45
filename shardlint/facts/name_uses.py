"""Uses of names by the files of a project: names of libraries, and of the project's own files."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.location import Location
from shardlint.model import Program
from shardlint.model.values import Api, ModuleValue, Place, options
from shardlint.syntax import FileFacts


def is_used_elsewhere(location: Location, name: str) -> bool:
    """Return whether another file of the project may use a name of this file."""
    evaluator = location.program.evaluator
    for file in location.program.project.files_importing(location.file.path, name, every=True):
        if file is None:
            return True
        for node in file.find_mentions(name):
            statement = file.parent(node)
            if isinstance(node, ast.alias) and isinstance(statement, ast.ImportFrom):
                module = evaluator.imported_module(file, statement)
            elif isinstance(node, ast.Attribute):
                module = evaluator.value(Place(file, node.value))
            else:
                continue
            if isinstance(module, ModuleValue) and module.file.path == location.file.path:
                return True
    return False


def find_references(program: Program, file: FileFacts, *names: str) -> Iterator[ast.Name | ast.Attribute]:
    """Where a file refers to one of these names, which all end in the same word, imports aside."""
    last = names[0].rpartition(".")[2]
    aliases = [node.asname for node in file.find_mentions(last) if isinstance(node, ast.alias) and node.asname]
    for word in (last, *aliases):
        for node in file.find_mentions(word):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                found = options(program.value(file, node))
                if any(isinstance(one, Api) and one.written in names for one in found):
                    yield node


def is_module_imported(location: Location, module: str, joined: bool = False) -> bool:
    """Return whether some file that runs with the location imports a module; True also in a project too large to be
    searched.

    `joined` counts all that must change together with its file.
    """
    if not location.program.project.is_module_imported(location.file.path, module, joined):
        return False
    return location.program.once(
        location.file, ("imports", module), lambda: _imports_module(location, module, joined), joined
    )


def _imports_module(location: Location, module: str, joined: bool) -> bool:
    found = location.program.project.files_holding(location.file.path, (module,), joined)
    return any(file is None or file_imports(file, module) for file in found)


def file_imports(file: FileFacts, module: str) -> bool:
    """Return whether a file imports a module or something of it."""
    for node in (*file.find_mentions(module), *file.names_imported_from(module)):
        statement = file.parent(node) if isinstance(node, ast.alias) else None
        if isinstance(statement, ast.ImportFrom):
            if not statement.level and (statement.module or "").partition(".")[0] == module:
                return True
        elif isinstance(statement, ast.Import) and isinstance(node, ast.alias):
            if node.name.partition(".")[0] == module:
                return True
    return False


def uses_any(location: Location, words: tuple[str, ...], joined: bool = False) -> bool:
    """Return whether code that runs with the location (or is `joined` to it) uses one of these names of a library."""
    return location.program.once(location.file, ("uses", words), lambda: _uses_words(location, words, joined), joined)


def _uses_words(location: Location, words: tuple[str, ...], joined: bool) -> bool:
    for file in location.program.project.files_holding(location.file.path, words, joined):
        if file is None:
            return True
        nodes = (node for word in words for node in file.find_mentions(word))
        if any(isinstance(node, ast.Name | ast.Attribute | ast.alias) for node in nodes):
            return True
    return False
