"""Arrays that are made with the size of one shard, and split once more by their sharding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes

KEYWORDS = ("out_sharding", "sharding", "device")
SAYING = ("_per_device", "_per_shard", "_per_rank", "_per_core", "_per_chip", "_per_partition")
"""How a size of one shard is called."""
_OF_ONE = compile_lazily(r"_per_(?:device|shard|rank|core|chip|partition)$")


def find_divided_sizes(site: Site) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """The sizes of one shard whose dimensions the sharding splits: each with its axis, and what divided it."""
    if not isinstance(site.syntax, ast.Call):
        return
    given = next((one.value for one in site.syntax.keywords if one.arg in KEYWORDS), None)
    spec = _written_spec(given)
    if spec is None or any(isinstance(one, ast.Starred) for one in spec.args):
        return
    parts = (*site.syntax.args, *(one.value for one in site.syntax.keywords if one.arg == "shape"))
    for shape in parts:
        if not isinstance(shape, ast.Tuple) or len(shape.elts) < len(spec.args):
            continue
        for size, axis in zip(shape.elts, spec.args, strict=False):
            whole = isinstance(axis, ast.Constant) and axis.value is None
            if whole or not isinstance(size, ast.Name | ast.Attribute) or not _OF_ONE.search(last_name(size)):
                continue
            division = _division_bound_to(site, last_name(size))
            if division is not None:
                yield size, axis, division


def _written_spec(node: ast.expr | None) -> ast.Call | None:
    """The PartitionSpec that is written out in a sharding."""
    for one in walk_nodes(node) if node is not None else ():
        if isinstance(one, ast.Call) and last_name(one.func) in ("P", "PS", "PartitionSpec"):
            return one
    return None


def _division_bound_to(site: Site, name: str) -> ast.expr | None:
    """The division that a file gives a name of."""
    if not re.search(rf"\b{re.escape(name)}\s*(?::[^=\n]+)?=[^=\n]*//", site.file.source.text):
        return None
    for use in site.file.find_mentions(name):
        statement = site.file.parent(use)
        if isinstance(statement, ast.Assign) and use in statement.targets:
            if isinstance(statement.value, ast.BinOp) and isinstance(statement.value.op, ast.FloorDiv):
                return statement.value
    return None
