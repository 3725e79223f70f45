"""Parts of a PartitionSpec, which are plain tuples: `spec[1:]`, `tuple(spec)`, `(*spec, None)`."""

from __future__ import annotations

import ast

from shardlint.model.evaluator import parts
from shardlint.model.reach import lookup
from shardlint.model.values import options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name

_DEPTH = 4


def part_of_spec(site: Site, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is surely a tuple made of a spec's entries."""
    match node:
        case ast.Subscript(value=whole, slice=ast.Slice()):
            return _is_spec(site, whole)
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[whole]):
            return _is_spec(site, whole)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(isinstance(one, ast.Starred) and _is_spec(site, one.value) for one in elements)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return part_of_spec(site, left, depth) or part_of_spec(site, right, depth)
        case ast.Name(id=name) if depth < _DEPTH:
            bindings, _ = lookup(site.file, node, name)
            if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].value is not None:
                return part_of_spec(site, bindings[0].value, depth + 1)
    return False


def _is_spec(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "spec" and "sharding" in last_name(node.value).lower():
        return True  # `x.sharding.spec`, `named_sharding.spec`
    found = options(site.value(node))
    return bool(found) and all(parts.entries(site.program.evaluator, one) is not None for one in found)
