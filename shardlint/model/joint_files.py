"""The files of a project that run together with one: those it imports, those that import it, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.linking import Linker
from shardlint.model.project import Project
from shardlint.model.values import ModuleValue
from shardlint.syntax import FileFacts

_DEPTH = 4
_FILES = 80


def imported_files(linker: Linker, file: FileFacts) -> Iterator[FileFacts]:
    """The files of the project that a file's own block imports."""
    for binding in file.module_imports:
        statement = file.parent(binding.node)
        if isinstance(statement, ast.ImportFrom):
            module = linker.imported_module(file, statement)
            member = linker.imported_value(file, binding) if binding.name != "*" else None
            found = [one for one in (module, member) if isinstance(one, ModuleValue)]
        elif isinstance(binding.node, ast.alias):
            module = linker.find_module(binding.node.name, file)
            found = [module] if isinstance(module, ModuleValue) else []
        else:
            found = []
        yield from (one.file for one in found)


def files_run_together(linker: Linker, project: Project, home: FileFacts) -> Iterator[FileFacts]:
    """The file, what it imports, what imports it, and what those import, the nearest first; tests aside, at most 80."""
    seen = {home.path}
    level = [home]
    yield home
    for depth in range(_DEPTH):
        following: list[FileFacts] = []
        for file in level:
            near = [*imported_files(linker, file)]
            if depth == 0:
                near += _importing_files(project, home)
            for other in near:
                if other.path in seen or project.is_test(other.path) or len(seen) >= _FILES:
                    continue
                seen.add(other.path)
                following.append(other)
                yield other
        level = following


def _importing_files(project: Project, file: FileFacts) -> Iterator[FileFacts]:
    stem = file.path.parent.name if file.path.stem == "__init__" else file.path.stem
    for other in project.files_importing(file.path, stem):
        if other is not None:
            yield other
