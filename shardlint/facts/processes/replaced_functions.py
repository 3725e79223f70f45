"""Places where a program replaces a function of a library: `jax.devices = f`, `mock.patch`, `monkeypatch.setattr`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.model.values import Api, Function, Place, Transformed, options
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 3
_PATCHERS = ("patch", "setattr")


def calls_replacement(program: Program, place: Place, module: str, name: str) -> bool:
    """Return whether a call of `module.name` at a place runs the program's replacement of it.

    A replacement that a `with` block or a decorator undoes counts inside of it alone, any other one everywhere. What
    tests replace does not count.
    """
    # Patterns that begin with letters of their own are some ten times faster.
    near = rf"\b.{{0,80}}?\b{name}\b"
    texts = (f"(?s)patch{near}", f"(?s)setattr{near}", rf"(?:){name}(?<!\w{name})\s*=(?!=)")
    project = program.project
    for path in project.paths_holding(place.file.path, texts):
        file = project.facts(path) if not project.is_test(path) else None
        if file is None:
            continue
        for node in _find_replacements(program, file, module, name):
            if not _is_undone(node, file) or _is_inside(program, place, Place(file, node), _DEPTH):
                return True
    return False


def _find_replacements(program: Program, file: FileFacts, module: str, name: str) -> Iterator[ast.AST]:
    """The assignments and calls of a file that replace `module.name`."""
    for node in file.find_mentions(name):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if _is_module(program, Place(file, node.value), module):
                yield node
        elif isinstance(node, ast.keyword) and isinstance(call := file.parent(node), ast.Call):
            if file.source_text(call.func).endswith("patch.multiple") and _names_module(program, file, call, module):
                yield call
    for word in _PATCHERS:
        for node in file.find_mentions(word):
            call = file.parent(node)
            if isinstance(call, ast.Attribute) and call.attr == "object":
                call = file.parent(call)
            if (
                isinstance(call, ast.Call)
                and call.args
                and _call_replaces_name(program, file, call, module, name)
            ):
                yield call


def _call_replaces_name(program: Program, file: FileFacts, call: ast.Call, module: str, name: str) -> bool:
    first, second = call.args[0], call.args[1] if len(call.args) > 1 else None
    if isinstance(first, ast.Constant):
        return first.value == f"{module}.{name}"
    return isinstance(second, ast.Constant) and second.value == name and _names_module(program, file, call, module)


def _names_module(program: Program, file: FileFacts, call: ast.Call, module: str) -> bool:
    if not call.args:
        return False
    first = call.args[0]
    if isinstance(first, ast.Constant):
        return first.value == module
    return _is_module(program, Place(file, first), module)


def _is_module(program: Program, place: Place, module: str) -> bool:
    return any(isinstance(one, Api) and one.name == module for one in options(program.evaluator.value(place)))


def _is_undone(node: ast.AST, file: FileFacts) -> bool:
    """Return whether a replacement is the item of a `with` block or a decorator, which undo it."""
    if isinstance(node, ast.Attribute):
        return False
    parent = file.parent(node)
    return isinstance(parent, ast.withitem) or (
        isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node in parent.decorator_list
    )


def _is_inside(program: Program, place: Place, patch: Place, depth: int) -> bool:
    """Return whether a place runs inside a patch: lexically, through a context manager, or in all its callers."""
    file, inner = place.file, place.node
    for outer in file.ancestors(place.node):
        if isinstance(outer, ast.With | ast.AsyncWith) and inner in outer.body:
            if any(_applies_patch(program, Place(file, one.context_expr), patch) for one in outer.items):
                return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and inner in outer.body:
            if any(_applies_patch(program, Place(file, one), patch) for one in outer.decorator_list):
                return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = program.flow.ends(file, outer).direct_calls() if depth else []
            if calls and all(_is_inside(program, one, patch, depth - 1) for one in calls):
                return True
        inner = outer
    return False


def _applies_patch(program: Program, item: Place, patch: Place) -> bool:
    """Return whether a `with` item or a decorator is a patch, or a function of the project whose body has it."""
    if item.node is patch.node:
        return True
    called = item.node.func if isinstance(item.node, ast.Call) else item.node
    for value in options(program.evaluator.value(Place(item.file, called))):
        while isinstance(value, Transformed):  # contextlib.contextmanager
            value = value.inner
        if isinstance(value, Function) and any(node is patch.node for node in walk_nodes(value.node)):
            return True
    return False
