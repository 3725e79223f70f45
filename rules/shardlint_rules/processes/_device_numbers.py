"""Devices that are taken from the list of all by the number in a name such as "cuda:1"."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.value_uses import reads_of_same_value


def indexed_by_name_number(site: Site) -> ast.Subscript | None:
    """Where a function takes from this list of devices by the number that it read in a name."""
    scope = site.scope.enclosing_function()
    text = site.text(scope.node) if scope is not None else ""
    if "local_devices" in text and ("distributed" in text or "process_count" in text):
        return None  # that is for one process
    if scope is None or not ("split(" in text or "partition(" in text):
        return None
    numbers, lists = _read_of_names(scope.node), list(reads_of_same_value(site.file, site.call))
    for node in walk_nodes(scope.node):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and node.value in lists:
            if any(isinstance(one, ast.Name) and one.id in numbers for one in _unwrap_int(node.slice)):
                return node
    return None


def _unwrap_int(index: ast.expr) -> Iterator[ast.expr]:
    """The index, or what `int` makes one of."""
    yield index
    if isinstance(index, ast.Call) and isinstance(index.func, ast.Name) and index.func.id == "int":
        yield from index.args


def _read_of_names(function: ast.AST) -> set[str]:
    """The names that hold what stood behind a colon, and the numbers made of those."""
    found: set[str] = set()
    for _ in range(2):
        for one in walk_nodes(function):
            if not isinstance(one, ast.Assign):
                continue
            words = list(walk_nodes(one.value))
            splits = any(
                isinstance(part, ast.Call)
                and isinstance(part.func, ast.Attribute)
                and part.func.attr in ("split", "partition", "rsplit", "rpartition")
                and any(isinstance(given, ast.Constant) and given.value == ":" for given in part.args)
                for part in words
            )
            if splits or any(isinstance(part, ast.Name) and part.id in found for part in words):
                found.update(
                    part.id for target in one.targets for part in walk_nodes(target) if isinstance(part, ast.Name)
                )
    return found
