"""Results of collectives, and of functions named like them, that are bound to the name they were made of and lost."""

from __future__ import annotations

import ast

from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes

_NAMED = (
    r"(?:sync|synchroni[sz]e|cross_replica|all_?reduce|p(?:mean|sum)|average_over|all_?gather|unreplicate)"
)
SYNCED = Lines(
    rf"(\w+)\s*=\s*[\w.]*{_NAMED}\w*\(",
    file_says=r"pmap|shard_map|jax_utils|p(?:mean|sum)|replica",
    saying=("sync", "cross_replica", "reduce", "pmean", "psum", "average", "gather", "unreplicate"),
)
"""Assignments of what may bring the devices together."""
_CALLED = compile_lazily(rf"(?:^|_){_NAMED}(?:_|$)")
# What is called to wait for others, and gives nothing of use.
_WAITS = compile_lazily(r"barrier|broadcast|devices|global|process|wait|host")


def unread_synced_call(site: Site) -> ast.Call | None:
    """The call of which the result goes to a name that nothing reads afterwards, though it was made of that name."""
    statement = site.syntax
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            pass
        case _:
            return None
    own = last_name(call.func)
    if not _CALLED.search(own) or _WAITS.search(own) or name.startswith("_"):
        return None
    given = [*call.args, *(one.value for one in call.keywords)]
    if not any(isinstance(one, ast.Name) and one.id == name for one in given):
        return None
    function = site.file.evaluation_scope(call).enclosing_function()
    if (
        function is None
        or isinstance(function.node, ast.Lambda)
        or _read_after(site, function.node, statement, name)
    ):
        return None
    return call


def _read_after(site: Site, function: ast.AST, statement: ast.stmt, name: str) -> bool:
    """Return whether anything in a function may read a name after a statement has bound it."""
    inside = set(walk_nodes(statement))
    loops = [one for one in site.file.ancestors(statement) if isinstance(one, ast.For | ast.While)]
    last = statement.end_lineno or statement.lineno
    for node in walk_nodes(function):
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return True
        if isinstance(node, ast.Name) and node.id in ("locals", "vars", "eval"):
            return True
        if (
            not isinstance(node, ast.Name)
            or node.id != name
            or isinstance(node.ctx, ast.Store)
            or node in inside
        ):
            continue
        own = site.file.evaluation_scope(node).enclosing_function()
        if own is None or own.node is not function:
            return True  # a function in it may run later
        if node.lineno > last or any(loop in site.file.ancestors(node) for loop in loops):
            return True
    return False
