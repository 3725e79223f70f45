"""Calls of the project's own functions for meshes and shardings, found by what they are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Function, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.nodes import child_nodes, walk_nodes

_WORDS = ("shard", "mesh", "partition", "place", "put", "constrain", "spec", "jit", "replicate", "device")
# Not in `compute`, `input`, `output`, `replace`, `inspect` and `special`, which are in every file.
_ELSEWHERE = {
    "put": ("(?<![mntMNT])", ""),
    "place": ("(?<!re)(?<!Re)", ""),
    "spec": ("(?<!in)(?<!In)", "(?!ial|trum|tral)"),
}
NAMES = compile_lazily("|".join(word.join(_ELSEWHERE.get(word, ("", ""))) for word in _WORDS), re.IGNORECASE)
_ANY = "|".join(
    f"[{word[0]}{word[0].upper()}]{word[1:]}".join(_ELSEWHERE.get(word, ("", ""))) for word in _WORDS
)
CALLING = Lines(rf"[^#\n]*(?:{_ANY})\w*\(", saying=(*_WORDS, *map(str.capitalize, _WORDS)))
"""Statements that begin with a line which calls something by such a name."""


def project_calls_in_statement(site: Site) -> Iterator[tuple[ast.Call, Function]]:
    """The calls in a statement itself, of plain functions of the project that are called so, and which function."""
    statement = site.syntax
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Match | ast.Try):
        return
    inside = getattr(statement, "body", None)
    parts = [
        part
        for part in child_nodes(statement)
        if not isinstance(inside, list) or not isinstance(part, ast.stmt)
    ]
    for part in parts:
        for call in walk_nodes(part):
            if not isinstance(call, ast.Call) or not NAMES.search(last_name(call.func)):
                continue
            found = options(site.value(call.func))
            if len(found) == 1 and isinstance(found[0], Function) and _is_plain_module_function(found[0]):
                yield call, found[0]


def _is_plain_module_function(function: Function) -> bool:
    """Return whether a function is at module level and has no decorator."""
    node = function.node
    if isinstance(node, ast.Lambda) or function.bound or function.owner is not None or node.decorator_list:
        return False
    scope = function.place.file.evaluation_scope(node)
    return len(function.place.file.bindings(scope, node.name)) == 1
