"""Values that the visible calls pass to a parameter or a field, and values that a class stores in one. Shared by
rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.evaluator.callers import moves_call_arguments
from shardlint.model.function_uses import FunctionUse
from shardlint.model.signatures import takes_self
from shardlint.model.values import Place
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

_CALLS = 20


def argument_values(program: Program, file: FileFacts, scope: Scope, name: str) -> Iterator[Place]:
    """The expressions that the calls in sight, but those of tests, give a parameter. There may be others."""
    if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) or scope.parent is None:
        return
    owner = scope.parent.node if isinstance(scope.parent.node, ast.ClassDef) else None
    makes = owner is not None and scope.node.name == "__init__"
    ends = program.flow.in_sight(file, owner if makes and owner is not None else scope.node)
    arguments = scope.node.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    if takes_self(scope):
        names = names[1:]
    for end in ends.found[:_CALLS]:
        if end.kind != "called" or moves_call_arguments(end) or _is_call_in_test(program, file, end):
            continue
        place = program.evaluator.read_arguments(end.place).argument_for(name, tuple(names))
        if place is not None and isinstance(place.node, ast.expr):
            yield place


def _is_call_in_test(program: Program, file: FileFacts, end: FunctionUse) -> bool:
    """Return whether a call is that of a test, which one process runs."""
    return end.place.file is not file and program.project.is_test(end.place.file.path)


def sole_attribute_value(file: FileFacts, node: ast.Attribute) -> Place | None:
    """Return the value that a class binds to `self.x`, if it does so once and sorts nothing in place."""
    scope = file.evaluation_scope(node)
    around = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    function = scope.enclosing_function()
    if around is None or function is None or not isinstance(node.value, ast.Name):
        return None
    written = f"{node.value.id}.{node.attr}"
    text = file.source_text(around)
    if f"{written}.sort(" in text or f"sorted({written}" in text:
        return None
    values = [
        statement.value
        for statement in walk_nodes(around)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Attribute) and file.source_text(target) == written
    ]
    return Place(file, values[0]) if len(values) == 1 else None


def given_field(program: Program, file: FileFacts, node: ast.Attribute) -> Iterator[Place]:
    """Yield the values of a field, `self.x`, in the visible calls that make an object of the class around."""
    around = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    if around is None or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return
    fields = [
        one.target.id
        for one in around.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    if node.attr in fields:
        for end in program.flow.in_sight(file, around).found[:_CALLS]:
            if end.kind == "called" and not moves_call_arguments(end) and not _is_call_in_test(program, file, end):
                place = program.evaluator.read_arguments(end.place).argument_for(node.attr, tuple(fields))
                if place is not None:
                    yield place
        return
    held = sole_attribute_value(file, node)
    if held is not None and isinstance(held.node, ast.Name):
        bindings, scope = lookup_bindings(file, held.node, held.node.id)
        if scope is not None and [one.kind for one in bindings] == ["param"]:
            yield from argument_values(program, file, scope, held.node.id)
