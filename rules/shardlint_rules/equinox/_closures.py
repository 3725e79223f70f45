"""Variables that a function takes from around it and that were placed on a mesh: for SL105."""

from __future__ import annotations

import ast

from shardlint.model import api
from shardlint.model.mesh.meshes import is_sharding
from shardlint.model.reach import lookup
from shardlint.model.values import CallResult, Function, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.equinox.placement import PLACING

# Reading these needs no array.
_FACTS = ("shape", "dtype", "ndim", "size", "sharding", "itemsize", "nbytes", "aval")


@dataclass(frozen=True)
class Carried:
    """A variable and the line at which it was placed."""

    name: str
    line: int


def carried(site: Site, function: Value) -> Carried | None:
    """The first variable in a function's text that holds an array split over a mesh outside of it."""
    if not isinstance(function, Function) or function.place.file is not site.file:
        return None
    file = site.file
    top = file.scope(function.node)
    inside = list(file.inner_scopes(top))
    for node in _body(function.node):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or _only_asks(file, node):
            continue
        bindings, owner = lookup(file, node, node.id)
        if owner is None or owner in inside or len(bindings) != 1 or node.id in file.rebound_globals:
            continue
        line = split_at(site, site.value(node))
        if line is not None:
            return Carried(node.id, line)
    return None


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.AST]:
    """The nodes of a body, in text order. Defaults and decorators are evaluated outside."""
    parts = [function.body] if isinstance(function, ast.Lambda) else function.body
    nodes = [node for part in parts for node in walk(part)]
    return sorted(nodes, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))


def _only_asks(file: FileFacts, node: ast.Name) -> bool:
    parent = file.parent(node)
    return isinstance(parent, ast.Attribute) and parent.attr in _FACTS


def split_at(site: Site, value: Value) -> int | None:
    """The line of the call that split the value over a mesh of Auto axes, if it surely did."""
    if len(options(value)) != 1 or not isinstance(value, CallResult) or value.call is None:
        return None
    name = PLACING.get(value.api)
    target = value.call.get(name, api.SIGNATURES[value.api]) if name is not None else None
    if target is None or value.call.place.file is not site.file or _in_traced(site, value.call.place):
        return None
    where = site.program.evaluator.value(target, value.call.environment)
    if not is_sharding(where) or not site.shardings.on_auto_mesh(where):
        return None
    for option in options(where):
        parts = site.sharding_parts(option)
        spec = site.spec_of(parts[1]) if parts is not None else None
        if spec is None or not any(entry.axes for entry in spec.entries):
            return None
    return value.call.place.line


def _in_traced(site: Site, place: Place) -> bool:
    return site.program.region(place.file, place.node).traced in ("always", "sometimes")
