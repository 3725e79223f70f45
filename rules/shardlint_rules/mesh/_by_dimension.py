"""Lists that a function fills with an entry for each dimension. For SL318."""

from __future__ import annotations

import ast

from shardlint.syntax import FileFacts


def filled_by_dimension(file: FileFacts, call: ast.Call) -> str:
    """How the function around `P(x)` or `P(tuple(x))` shows that `x` has an entry, or None, for each dimension."""
    node = call.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("tuple", "list"):
        node = node.args[0] if len(node.args) == 1 else node
    scope = file.evaluation_scope(call).enclosing_function()
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return "the comprehension gives None for some dimensions" if _may_be_none(node.elt) else ""
    if not isinstance(node, ast.Name) or scope is None:
        return ""
    for one in file.mentions_in(scope, node.id):
        parent = file.parent(one)
        if not isinstance(one, ast.Name) or one is node:
            continue
        match parent:
            case ast.Assign(value=ast.BinOp(op=ast.Mult(), left=ast.List(elts=[ast.Constant(value=None)]))):
                return f"line {one.lineno} makes the list with one None per dimension"
            case ast.Assign(value=ast.ListComp(elt=elt)) if _may_be_none(elt):
                return f"line {one.lineno} gives None for some dimensions"
            case ast.Attribute(attr="append", value=value) if value is one:
                added = file.parent(parent)
                if isinstance(added, ast.Call) and added.args and _may_be_none(added.args[0]):
                    return f"line {one.lineno} appends None"
            case ast.Subscript(value=value) if value is one:
                asked = file.parent(parent)
                if isinstance(asked, ast.Compare) and isinstance(asked.ops[0], ast.Is | ast.IsNot):
                    if isinstance(asked.comparators[0], ast.Constant) and asked.comparators[0].value is None:
                        return f"line {one.lineno} compares an entry with None"
    return ""


def _may_be_none(node: ast.expr) -> bool:
    """Return whether an expression is None, or is None on one path."""
    return any(isinstance(one, ast.Constant) and one.value is None for one in _conditional_results(node))


def _conditional_results(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [*_conditional_results(node.body), *_conditional_results(node.orelse)]
    return [node]
