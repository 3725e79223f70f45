"""Whether an expression written outside a function means the same inside its body."""

from __future__ import annotations

import ast

from shardlint.model.mesh.meshes import MESH_MAKERS, SHARDINGS
from shardlint.model.reach import lookup
from shardlint.model.values import CallResult, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, Scope
from shardlint_rules.equinox.wrapped import Definition

_MAKERS = (*SHARDINGS, *MESH_MAKERS, "jax.sharding.PartitionSpec")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def obstacle(site: Site, expression: ast.expr, function: Definition | ast.Lambda) -> str | None:
    """Why the expression cannot be written at the top of the function's body; None when it can."""
    for part in ast.walk(expression):
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return f"`{site.text(expression)}` does more than name a sharding"
        if isinstance(part, ast.Call) and not makes_sharding(site.value(part)):
            return f"`{site.text(part)}` would be called at every trace; give its result a name first"
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            problem = _name(site, part, expression, function)
            if problem is not None:
                return problem
    return None


def makes_sharding(value: Value) -> bool:
    """Calls that are cheap and the same whenever they run."""
    return all(isinstance(option, CallResult) and option.api in _MAKERS for option in options(value))


def _name(site: Site, name: ast.Name, expression: ast.expr, function: Definition | ast.Lambda) -> str | None:
    file = site.file
    bindings, scope = lookup(file, name, name.id)
    if scope is not None and any(scope.node is part for part in ast.walk(expression)):
        return None  # a variable of the expression's own lambda or comprehension
    first, called = (
        (function.body, "the lambda")
        if isinstance(function, ast.Lambda)
        else (function.body[0], f"`{function.name}`")
    )
    inside = lookup(file, first, name.id)[1]
    own = file.walked(file.scope(function))
    if inside is own or name.id in own.bindings:
        return f"`{name.id}` is another variable inside {called}"
    if inside is not scope:
        return f"`{name.id}` is not the same name inside {called}"
    if scope is None:
        return None
    return changes(site, name, bindings, scope)


def changes(site: Site, name: ast.Name, bindings: list[Binding], scope: Scope) -> str | None:
    """Whether the name may have another value by the time the function is traced."""
    file = site.file
    if scope.kind == "module" and name.id in file.rebound_globals:
        return f"`{name.id}` is rebound through `global`"
    for binding in file.bindings(scope, name.id):
        if binding.kind in ("augment", "delete"):
            return f"`{name.id}` changes after it is bound"
        if binding not in bindings and binding.line > name.lineno:
            return f"`{name.id}` is bound again before the function is traced"
        for outer in file.ancestors(binding.node):
            if outer is scope.node:
                break
            if isinstance(outer, _LOOPS):
                return f"`{name.id}` changes in a loop"
    return None
