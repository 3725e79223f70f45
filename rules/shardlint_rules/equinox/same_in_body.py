"""Test for expressions that have the same value inside a function's body as outside of it."""

from __future__ import annotations

import ast

from shardlint.facts.shardings import SHARDINGS
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.values import Api, CallResult, ClassValue, Function, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import Binding, Scope, last_name
from shardlint.syntax.bindings import global_bindings, lookup_bindings
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox.in_class import class_of_name
from shardlint_rules.equinox.later_changes import changed_later
from shardlint_rules.equinox.wrapped_functions import Definition

_MAKERS = (*SHARDINGS, *MESH_MAKERS, "jax.sharding.PartitionSpec")
_HOLDERS = ("builtins.dict", "builtins.list", "builtins.tuple")
_FIELDS = {"NamedTuple", "Module", "PyTreeNode", "dataclass"}
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def explain_obstacle(site: Site, expression: ast.expr, function: Definition | ast.Lambda) -> str | None:
    """Why the expression cannot be written at the top of the function's body; None when it can."""
    for part in walk_nodes(expression):
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            where = f"`{site.text(expression)}` at line {expression.lineno}"
            return f"{where} contains `:=` or `await`: assign its value to a variable first"
        if isinstance(part, ast.Call) and not gives_the_same(site, part):
            where = f"`{site.text(part)}` at line {part.lineno}"
            return f"{where} would be called at every trace: assign its result to a variable first"
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            problem = _value_in_body(site, part, expression, function)
            if problem is not None:
                return problem
    change = changed_later(site, expression)
    return change.reason if change is not None else None


def gives_the_same(site: Site, call: ast.Call) -> bool:
    """Calls that are cheap and give the same whenever they run: shardings, and what only holds its arguments."""
    if all(isinstance(one, CallResult) and one.api in _MAKERS for one in options(site.value(call))):
        return True
    return all(_is_plain_holder(site, one) for one in options(site.value(call.func)))


def _is_plain_holder(site: Site, callee: Value) -> bool:
    if isinstance(callee, CallResult):
        return callee.api == "collections.namedtuple"
    if isinstance(callee, Api):
        return callee.name in _HOLDERS
    return isinstance(callee, ClassValue) and all(
        _has_generated_init(one) for one in site.program.evaluator.project_ancestors(callee)
    )


def _has_generated_init(class_value: ClassValue) -> bool:
    """Return whether a class gets its `__init__` from a NamedTuple, a dataclass or a Module."""
    said = [last_name(part.func if isinstance(part, ast.Call) else part) for part in class_value.node.decorator_list]
    kinds = {last_name(base) for base in class_value.node.bases} | set(said)
    own = {part.name for part in class_value.node.body if isinstance(part, ast.FunctionDef)}
    return bool(kinds & _FIELDS) and not own & {"__init__", "__new__", "__post_init__", "__init_subclass__"}


def _value_in_body(
    site: Site, name: ast.Name, expression: ast.expr, function: Definition | ast.Lambda
) -> str | None:
    file = site.file
    bindings, scope = lookup_bindings(file, name, name.id)
    if scope is not None and any(scope.node is part for part in walk_nodes(expression)):
        return None  # a variable of the expression's own lambda or comprehension
    first, called = (
        (function.body, "the lambda")
        if isinstance(function, ast.Lambda)
        else (function.body[0], f"`{function.name}`")
    )
    if (owner := class_of_name(site, name)) is not None:
        home = file.evaluation_scope(function)
        seen = lookup_bindings(file, first, owner)[1]
        return None if seen is home.parent else f"`{owner}` is another variable inside {called}"
    inside = lookup_bindings(file, first, name.id)[1]
    own = file.walk_scope(file.scope(function))
    if inside is own or name.id in own.bindings:
        return f"`{name.id}` is another variable inside {called}"
    if inside is not scope:
        return f"`{name.id}` at line {name.lineno} is assigned in a scope that {called} cannot read"
    if scope is None:
        return None
    return explain_change(site, name, bindings, scope)


def explain_change(site: Site, name: ast.Name, bindings: list[Binding], scope: Scope) -> str | None:
    """Return why the name may have another value by the time the function is traced; None if it keeps its value."""
    file = site.file
    if scope.kind == "module" and (rebinding := global_bindings(file, name.id)):
        line = rebinding[0].line
        return f"line {line} assigns the global `{name.id}` again, maybe before the function is traced"
    if scope.kind == "comprehension":
        line = getattr(scope.node, "lineno", name.lineno)
        return f"the comprehension at line {line} changes `{name.id}`: the function would read its last value"
    for binding in file.bindings(scope, name.id):
        if binding.kind in ("augment", "delete"):
            return f"line {binding.line} changes `{name.id}` after the assignment"
        if binding not in bindings and binding.line > name.lineno:
            return f"line {binding.line} assigns `{name.id}` again, maybe before the function is traced"
        for outer in file.ancestors(binding.node):
            if outer is scope.node:
                break
            if isinstance(outer, _LOOPS):
                return f"the loop at line {outer.lineno} changes `{name.id}`: the function would read its last value"
    return None


def is_constant_function(site: Site, function: ast.expr, statement: ast.stmt) -> bool:
    """Return whether an expression is always the same function, without arrays of its own."""
    if isinstance(function, ast.Lambda):
        return True  # what it names is looked up where it runs, here as there
    if not all(_holds_nothing(option) for option in options(site.value(function))):
        return False
    for part in walk_nodes(function):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            bindings, scope = lookup_bindings(site.file, part, part.id)
            if scope is None:
                continue
            if scope.kind in ("class", "comprehension", "lambda") or explain_change(
                site, part, bindings, scope
            ):
                return False
            if any(binding.node in walk_nodes(statement) for binding in site.file.bindings(scope, part.id)):
                return False
    return True


def _holds_nothing(value: Value) -> bool:
    if isinstance(value, Transformed):
        given = value.call.positional[1:] if value.call is not None else ()
        return value.api.name != "functools.partial" and not given and _holds_nothing(value.inner)
    if isinstance(value, Function):
        owner = value.owner
        return owner is None or not value.bound or not owner.node.bases
    return isinstance(value, Api)
