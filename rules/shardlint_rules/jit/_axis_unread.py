"""Functions that map or reduce over an axis, by what they call and by their names."""

from __future__ import annotations

import ast

from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk

AXES = ("axis_name", "pmap_axis_name", "batch_axis_name")
"""Parameters that name an axis of `pmap`, `vmap` or a mesh."""
_MAPS = regex(r"(?:^|_)(?:pmap|vmap|xmap|shard_?map)(?:ped)?(?:_|$)")
_REDUCES = regex(
    r"(?:^|_)(?:p(?:mean|sum|max|min)|psum_scatter|all_?gather|all_?reduce|cross_replica|sync|synchroni[sz]e)(?:_|$)"
)
_CALLS = regex(
    r"^(?:pmap|vmap|shard_map|p(?:mean|sum|max|min)|psum_scatter|all_gather|ppermute|all_to_all|axis_index)$"
)


def over_an_axis(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """In words what a function does over an axis; None where it is not known to, or leaves that to others."""
    body = [
        one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    if not body or not any(isinstance(one, ast.Call) for part in body for one in walk(part)):
        return None
    if isinstance(body[-1], ast.Raise):
        return None
    for part in body:
        for one in walk(part):
            if isinstance(one, ast.Call) and _CALLS.search(last_name(one.func)):
                return f"calls {last_name(one.func)} at line {one.lineno}"
    if _MAPS.search(node.name):
        return "maps"
    return "reduces" if _REDUCES.search(node.name) else None


def reads_it(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a function reads its parameter, but to give it to itself again: `partial(f, axis_name=axis_name)`."""
    again = set[ast.AST]()
    for call in walk(ast.Module(node.body, [])):
        if isinstance(call, ast.Call):
            called = [call.func, *call.args[:1]]
            if any(isinstance(one, ast.Name) and one.id == node.name for one in called):
                again.update(keyword.value for keyword in call.keywords if keyword.arg == name)
    return any(
        isinstance(one, ast.Name) and one not in again and one.id in (name, "locals", "vars", "eval")
        for one in walk(ast.Module(node.body, []))
    )
