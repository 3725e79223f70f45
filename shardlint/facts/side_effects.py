"""Test for functions without side effects, whose calls do nothing if the result is dropped."""

from __future__ import annotations

import ast

from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.values import Api, CallResult, Function, Place, Transformed, Value, options
from shardlint.syntax import Scope, last_name

_DISPLAYS = (ast.List, ast.ListComp, ast.Dict, ast.DictComp)
_SAYING = ("print", "debug", "info", "warning", "warn", "log")


def has_no_effects(value: Value) -> bool:
    """Return whether a function value has no side effects, in all its possibilities: it stores nothing and calls
    nothing else.
    """
    while isinstance(value, Transformed):
        value = value.inner
    if not isinstance(value, Function):
        return False
    if isinstance(value.node, ast.Lambda):
        return True
    file = value.place.file
    scope = file.walk_scope(file.scope(value.node))
    fresh = _fresh_containers(scope)
    return not scope.outer_names and all(
        _is_harmless_statement(statement, fresh) for statement in scope.statements
    )


def _fresh_containers(scope: Scope) -> set[str]:
    """The names that stand for nothing but lists and tables that the function makes itself."""
    return {
        name
        for name, bindings in scope.bindings.items()
        if all(one.kind == "assign" and isinstance(one.value, _DISPLAYS) for one in bindings)
    }


def _is_harmless_statement(statement: ast.stmt, fresh: set[str]) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=func)):
            name = last_name(func)
            return name in _SAYING
        case ast.Assign(targets=targets):
            return all(_is_local_target(target) or _is_own_entry(target, fresh) for target in targets)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return isinstance(target, ast.Name)
        case ast.For(target=target):
            return _is_local_target(target)
        case ast.Expr() | ast.Delete() | ast.Global() | ast.Nonlocal():
            return False
    return True


def _is_own_entry(target: ast.expr, fresh: set[str]) -> bool:
    """An entry of a list or table that the function makes itself."""
    return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id in fresh


def _is_local_target(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(_is_local_target(part) for part in target.elts)
    return isinstance(target, ast.Name) or (
        isinstance(target, ast.Starred) and _is_local_target(target.value)
    )


def called_function(evaluator: Evaluator, place: Place) -> Value | None:
    """The function that a call runs, an object's `__call__` too; None where it may be one of several."""
    assert isinstance(place.node, ast.Call)
    found = options(evaluator.value(Place(place.file, place.node.func)))
    if len(found) != 1:
        return None
    value = found[0]
    if isinstance(value, CallResult) and not isinstance(value.by, Api):
        value = evaluator.evaluate_attribute(value, "__call__")
    return value
