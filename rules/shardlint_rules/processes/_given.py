"""Where a name or an attribute has its value from: what the calls in sight give a parameter, what a class keeps in a field."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.evaluator.callers import moved
from shardlint.model.values import Place
from shardlint.syntax import FileFacts, Scope

_CALLS = 20


def given(program: Program, file: FileFacts, scope: Scope, name: str) -> Iterator[Place]:
    """The expressions that the calls in sight give a parameter of a function. There may be others."""
    known = program.callers.calls(file, scope)
    if known is None or not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    function, ends = known
    arguments = scope.node.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in scope.node.decorator_list)
    if function.owner is not None and not static:
        names = names[1:]
    for end in ends.found[:_CALLS]:
        if end.kind != "called" or moved(end):
            continue
        place = program.evaluator.arguments(end.place).get(name, tuple(names))
        if place is not None and isinstance(place.node, ast.expr):
            yield place


def kept(file: FileFacts, node: ast.Attribute) -> Place | None:
    """What a class binds `self.x` to, where it does so once and sorts nothing in place."""
    scope = file.home(node)
    around = next((one for one in file.ancestors(node) if isinstance(one, ast.ClassDef)), None)
    function = scope.function()
    if around is None or function is None or not isinstance(node.value, ast.Name):
        return None
    written = f"{node.value.id}.{node.attr}"
    text = file.text(around)
    if f"{written}.sort(" in text or f"sorted({written}" in text:
        return None
    values = [
        statement.value
        for statement in ast.walk(around)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Attribute) and file.text(target) == written
    ]
    return Place(file, values[0]) if len(values) == 1 else None
