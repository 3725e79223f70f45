"""Parts of a PartitionSpec, which are plain tuples: `spec[1:]`, `tuple(spec)`, `(*spec, None)`.

A sum with a spec on either side is a spec again since jax 0.6: `spec[1:] + P(None)`.
"""

from __future__ import annotations

import ast

from shardlint.model.evaluator import sequence_parts
from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.values import Api, Constant, Items, Parameter, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings

_DEPTH = 4
_NAMED = "jax.sharding.NamedSharding"


def part_of_spec(site: Site, node: ast.expr, depth: int = 0) -> bool:
    """Return whether an expression is surely a tuple or list made of a spec's entries."""
    match node:
        case ast.Subscript(value=whole, slice=ast.Slice()):
            return _is_spec(site, whole)
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[whole]):
            return _is_spec(site, whole)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(isinstance(one, ast.Starred) and _is_spec(site, one.value) for one in elements)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = (left, right)
            return any(part_of_spec(site, one, depth) for one in sides) and all(
                _is_tuple_or_list(site, one) for one in sides
            )
        case ast.IfExp(body=body, orelse=orelse):
            return part_of_spec(site, body, depth) and part_of_spec(site, orelse, depth)
        case ast.Name() if depth < _DEPTH:
            given = _single_assigned_value(site, node)
            return given is not None and part_of_spec(site, given, depth + 1)
    return False


def _is_tuple_or_list(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is surely a tuple or list, and no spec."""
    match node:
        case ast.Tuple() | ast.List():
            return True
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _is_tuple_or_list(site, left) or _is_tuple_or_list(site, right)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_tuple_or_list(site, left) and _is_tuple_or_list(site, right)
    if part_of_spec(site, node):
        return True
    found = options(site.value(node))
    return bool(found) and all(
        isinstance(one, Items) or _is_annotated_with(site, one, "builtins.tuple") for one in found
    )


def _is_spec(site: Site, node: ast.expr, depth: int = 0) -> bool:
    """Return whether the unpacked value is a spec. None has no parts, so a spec that may be None is one here."""
    if isinstance(node, ast.Attribute) and node.attr == "spec":
        if last_name(node.value).lower().endswith("sharding"):
            return True  # `x.sharding.spec`, `named_sharding.spec`
        holders = options(site.value(node.value))
        if holders and all(
            _is_annotated_with(site, one, _NAMED) or getattr(one, "api", None) == _NAMED for one in holders
        ):
            return True
    if isinstance(node, ast.Name) and depth < _DEPTH:
        given = _single_assigned_value(site, node)
        if given is not None and _is_spec(site, given, depth + 1):
            return True
    found = [one for one in options(site.value(node)) if one != Constant(None)]
    return bool(found) and all(
        sequence_parts.spec_entries(site.program.evaluator, one) is not None
        or _is_annotated_with(site, one, sequence_parts.SPEC)
        for one in found
    )


def _single_assigned_value(site: Site, node: ast.Name) -> ast.expr | None:
    """Return the value of a name that one assignment alone binds."""
    bindings, _ = lookup_bindings(site.file, node, node.id)
    only = bindings[0] if len(bindings) == 1 else None
    return only.value if only is not None and only.kind == "assign" else None


def _is_annotated_with(site: Site, value: Value, name: str) -> bool:
    """Return whether a value is a parameter that is annotated with a class, or with it and None."""
    if not isinstance(value, Parameter) or not isinstance(value.place.node, ast.arg):
        return False
    annotation = value.place.node.annotation
    if annotation is None:
        return False
    kinds = annotated_classes(site.program.evaluator, Place(value.place.file, annotation))
    named = [one for one in kinds if one != Constant(None)]
    return bool(named) and all(isinstance(one, Api) and one.name == name for one in named)
