"""Functions that end in what they were to return: `state, loss` as their last statement. Part of SL237."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex

ENDING = Lines(
    r"def \w*(?:step|shard|update|plac|init|loss|grad|forward|replicat|batch)\w*\(",
    file_says=r"jax|flax|equinox|haliax",
    saying=("def ",),
    on="definition",
)
"""Definitions of what steps, places or initializes, by name."""
# Names and parts of objects, alone or in a row: looked at first, since the body need not be parsed for it.
_BARE = regex(r"(?!(?:return|raise|pass|yield|break|continue|del|global|nonlocal)\b)[A-Za-z_({\[][^=]*$")
_GIVING = (ast.Name, ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.Attribute)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def forgotten(site: Site) -> ast.expr | None:
    """The expression that a function ends in, which has no effect, where nothing else is returned."""
    node = site.syntax
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
        return None
    lines = site.text(node).rstrip().splitlines()
    last = lines[-1].partition("#")[0].strip()
    if len(lines) < 2 or not (_BARE.match(last) or last[:1] in ")}]") or len(node.body) < 2:
        return None
    statement = node.body[-1]
    given = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(given, _GIVING):
        return None
    for one in _own(node):
        if isinstance(one, ast.Yield | ast.YieldFrom) or (isinstance(one, ast.Return) and one.value is not None):
            return None
    return given


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What stands in a function, without the functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            waiting += ast.iter_child_nodes(node)
