"""Comparison of the results of a function with the shardings or mapped axes written for them."""

from __future__ import annotations

import ast

from shardlint.model.values import Function, Items, Table, Transformed, Value, options
from shardlint.rules_api.site import Site

KEEPING = ("functools.partial", "jax.vmap", "jax.checkpoint", "jax.named_call")
"""What they return has the structure of what the function returns."""


def is_tree(value: Value | None) -> bool:
    """Return whether a value is a container of which all entries are known."""
    return isinstance(value, Items | Table) and not value.open


def returned_values(site: Site, function: Value) -> list[Value]:
    """Return the value of each `return` of a function; empty if its definition is not visible."""
    while isinstance(function, Transformed) and function.api.name in KEEPING:
        function = function.inner
    if not isinstance(function, Function) or isinstance(function.node, ast.AsyncFunctionDef):
        return []
    file, node = function.place.file, function.node
    if isinstance(node, ast.Lambda):
        return list(options(site.program.value(file, node.body)))
    scope = file.walk_scope(file.scope(node))
    if any(not isinstance(one, ast.Return) or one.value is None for one in scope.returns):
        return []
    return [
        v
        for one in scope.returns
        if one.value is not None
        for v in options(site.program.value(file, one.value))
    ]


def do_trees_differ(value: Value | None, returned: Value) -> bool:
    """Return whether the structure of a tree of settings surely differs from that of a result."""
    if isinstance(returned, Table) and not returned.open:
        return isinstance(value, Items)
    if not isinstance(returned, Items) or returned.open or returned.kind not in ("tuple", "list"):
        return False
    if not isinstance(value, Items):
        return True
    return value.kind != returned.kind or len(value.items) != len(returned.items)


def container_name(value: Value | None) -> str:
    """A container, for messages."""
    if isinstance(value, Items):
        return f"a {value.kind} of {len(value.items)}"
    return "a dict"
