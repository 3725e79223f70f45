"""Qualified names of values, for triggers on names of libraries and of the project."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from shardlint.model import Program, api
from shardlint.model.values import Api, ClassValue, Function, Transformed, Value
from shardlint.syntax import FileFacts


def found_in(names: Collection[str], program: Program, file: FileFacts, value: Value) -> Iterator[Api]:
    """The names among `names`, some of which may end in `.*`, that a value has, each with its full name."""
    while isinstance(value, Transformed) and value.api.name != "functools.partial":
        value = value.inner  # a function of the project with its decorators
    if isinstance(value, Api):
        if value.name != value.written and value.name in names:
            yield Api(value.name, value.name)
        yield from _api_among_names(names, value.written)
    elif isinstance(value, Function | ClassValue):
        yield from _api_among_names(names, _dotted_name(program, value))
        for name in names:
            if name.partition(".")[0] not in api.LIBRARIES and not name.endswith(".*"):
                if _handed_on(program, file, name) is value.place.node:
                    yield Api(name, name)


def _api_among_names(names: Collection[str], full: str) -> Iterator[Api]:
    if full in names:
        yield Api(full, full)
    module = full
    while module:  # a module stands for what is read of it where it is named
        if f"{module}.*" in names:
            yield Api(f"{module}.*", full)
        module = module.rpartition(".")[0]


def _dotted_name(program: Program, value: Function | ClassValue) -> str:
    """The full name of a definition: of its module, then of the classes it stands in."""
    file, node = value.place.file, value.place.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ""
    outer = [scope.name for scope in file.evaluation_scope(node).enclosing_scopes() if scope.kind != "module"]
    return ".".join((program.project.module_name(file.path), *reversed(outer), node.name))


def _handed_on(program: Program, file: FileFacts, name: str) -> ast.AST | None:
    """The definition that a module of the project hands on under a name."""
    module, _, last = name.rpartition(".")
    path = program.project.resolve_module(module, file.path)
    facts = program.project.facts(path) if path is not None else None
    value = program.evaluator.linker.module_member(facts, last) if facts is not None else None
    while isinstance(value, Transformed) and value.api.name != "functools.partial":
        value = value.inner
    return value.place.node if isinstance(value, Function | ClassValue) else None
