"""Uses of a result: used, dropped at once, or bound to a name that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings, may_refer, reaching_bindings

ResultUse = Literal["used", "dropped", "never read"]


def use_of_result(file: FileFacts, call: ast.expr) -> tuple[ResultUse, str | None]:
    """Return the use of a call's result, and the name it was bound to.

    Only certain answers: a name at module or class level may be read by others, `_` says it is meant, and a name that
    a nested function, `global`, `locals()` or `del` touches counts as used.
    """
    parent = file.parent(call)
    if isinstance(parent, ast.Expr):
        return "dropped", None
    if isinstance(parent, ast.ListComp | ast.SetComp) and parent.elt is call:
        return use_of_result(file, parent)  # one of what is collected
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return "used", None
    target = parent.targets[0]
    scope = file.evaluation_scope(target)
    if not isinstance(target, ast.Name) or scope.kind != "function":
        return "used", None
    if target.id.startswith("_") or target.id in scope.outer_names or _reads_locals(file, scope):
        return "used", target.id
    read = file.remember_for_file(("read", (scope, target.id)), lambda: frozenset(_read_bindings(file, scope, target)))
    return ("used" if target in read else "never read"), target.id


def _read_bindings(file: FileFacts, scope: Scope, target: ast.Name) -> Iterator[ast.AST]:
    """Of all that binds the name of a target in a scope, what somebody reads."""
    name = target.id
    for node in file.mentions_in(scope, name):
        if not isinstance(node, ast.Name):
            continue
        if isinstance(node.ctx, ast.Store) and not isinstance(file.parent(node), ast.AugAssign):
            continue
        home = file.evaluation_scope(node)
        if isinstance(node.ctx, ast.Del):
            if home is scope:
                yield from (binding.node for binding in file.bindings(scope, name))
            continue
        if not may_refer(file, node, name, target):
            continue
        bindings, owner = lookup_bindings(file, node, name)
        if owner is not scope:
            continue
        if home is not scope and home.enclosing_function() is not scope:  # a nested function reads it some time
            bindings = file.bindings(scope, name)
        yield from (binding.node for binding in bindings)


def _reads_locals(file: FileFacts, scope: Scope) -> bool:
    return any(
        file.evaluation_scope(node) is scope and isinstance(file.parent(node), ast.Call)
        for name in ("locals", "vars", "eval", "exec")
        for node in file.mentions_in(scope, name)
        if isinstance(node, ast.Name)
    )


def reads_after(file: FileFacts, scope: Scope, target: ast.Name) -> list[ast.Name]:
    """The reads that this binding of a name can reach, in its own scope."""
    bindings = file.bindings(scope, target.id)
    found = []
    for node in file.mentions_in(scope, target.id):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and file.evaluation_scope(node) is scope:
            if any(binding.node is target for binding in reaching_bindings(file, node, bindings)):
                found.append(node)
    return found
