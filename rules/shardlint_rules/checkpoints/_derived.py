"""Assignments of parts of a restored checkpoint to names and attributes, without a sharding."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import find_binding_reads
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import Scope
from shardlint.syntax.nodes import walk_nodes

_TREE_MAPS = ("jax.tree.map", "jax.tree_util.tree_map", "jax.tree_map")
_ARRAYS = ("jax.numpy.asarray", "jax.numpy.array", "numpy.asarray", "numpy.array", "jax.device_put")
_HANDING_ON = (
    "flax.core.freeze",
    "flax.core.frozen_dict.freeze",
    "jax.tree.unflatten",
    "jax.tree_util.tree_unflatten",
)
_READ = "nothing places the array"
_DEFAULT = "the array is uncommitted on the default device"
_DEPTH = 3


@dataclass(frozen=True)
class Derived:
    """An assignment of a part of a restored checkpoint: its target, value and statement, and the reason why it is not
    placed.
    """

    target: ast.expr
    value: ast.expr
    statement: ast.Assign
    why: str


def find_derived_names(site: Site, restored: ast.Assign) -> Iterator[Derived]:
    """The names and attributes that get a part of what a statement restored, and no sharding with it."""
    target = restored.targets[0]
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    for one in elements:
        if isinstance(one, ast.Attribute):
            yield Derived(one, restored.value, restored, _READ)
        elif isinstance(one, ast.Name):
            yield from _find_assigned_parts(site, one, 0)


def _find_assigned_parts(site: Site, name: ast.Name, depth: int) -> Iterator[Derived]:
    """Yield the parts that assignments derive from a name."""
    for read, alone in find_binding_reads(site.file, name):
        statement = site.file.statement(read)
        if (
            not alone
            or depth > _DEPTH
            or not isinstance(statement, ast.Assign)
            or len(statement.targets) != 1
        ):
            continue
        for target, value in _target_value_pairs(statement):
            why = _text_around_value(site, value, read)
            if not why or not isinstance(target, ast.Name | ast.Attribute):
                continue
            yield Derived(target, value, statement, why)
            if isinstance(target, ast.Name) and target.id != name.id:
                yield from _find_assigned_parts(site, target, depth + 1)


def _target_value_pairs(statement: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """The target of an assignment and what it gets; of two tuples, those of each element."""
    match statement.targets[0], statement.value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            return list(zip(targets, values, strict=True))
    return [(statement.targets[0], statement.value)]


def _text_around_value(site: Site, value: ast.expr, read: ast.Name) -> str:
    """Where an expression leaves what a name holds, if it is that, or a part of it; "" where it may place it."""
    match value:
        case ast.Name():
            return _READ if value is read else ""
        case ast.Subscript(value=inner, slice=ast.Constant()) | ast.Attribute(value=inner):
            return _text_around_value(site, inner, read)
        case ast.Call(args=[first]) if not value.keywords and _is_one_of(site, value.func, _ARRAYS):
            return _text_around_value(site, first, read) and _DEFAULT
        case ast.Call(args=[function, tree]) if not value.keywords and _is_one_of(
            site, value.func, _TREE_MAPS
        ):
            return _text_around_value(site, tree, read) and (_DEFAULT if _makes_array(site, function) else "")
        case ast.Call(args=[*_, last]) if not value.keywords and _is_one_of(site, value.func, _HANDING_ON):
            return _text_around_value(site, last, read)
    return ""


def _is_one_of(site: Site, func: ast.expr, names: tuple[str, ...]) -> bool:
    found = options(site.value(func))
    return bool(found) and all(isinstance(one, Api) and one.name in names for one in found)


def _makes_array(site: Site, function: ast.expr) -> bool:
    """Return whether the function of a tree map makes an array of a leaf without a placement."""
    if isinstance(function, ast.Lambda):
        body = function.body
        named = isinstance(body, ast.Call) and len(body.args) == 1 and not body.keywords
        return isinstance(body, ast.Call) and named and _is_one_of(site, body.func, _ARRAYS)
    return _is_one_of(site, function, _ARRAYS)


def holder_scope(scope: Scope, target: ast.expr) -> Scope:
    """Where a target may be assigned to: the class, for an attribute of `self`, else the function."""
    of_self = (
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    )
    owner = scope.parent
    return owner if of_self and owner is not None and owner.kind == "class" else scope


def other_creating_assignments(site: Site, restored: Derived, scope: Scope) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """The other statements that assign to what gets what was restored, each with the call that gives it."""
    written = site.text(restored.target)
    for statement in walk_nodes(holder_scope(scope, restored.target).node):
        if (
            statement is restored.statement
            or not isinstance(statement, ast.Assign)
            or len(statement.targets) != 1
        ):
            continue
        for target, given in _target_value_pairs(statement):
            whole = target is statement.targets[0] and isinstance(target, ast.Tuple)
            parts = target.elts if whole and isinstance(target, ast.Tuple) else [target]
            if isinstance(given, ast.Call) and any(site.text(one) == written for one in parts):
                yield statement, given
