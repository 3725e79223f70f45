"""Functions that may constrain what they compute."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, Function, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk

_CONSTRAINTS = ("with_sharding_constraint", "filter_shard", "with_logical_constraint", "reshard", "shard_map")
_SPLITS = regex("|".join((*_CONSTRAINTS, r"shard\w*\(", "constrain")))
_DEPTH = 4


def may_constrain(site: Site, function: Value) -> bool:
    """True if a jitted function may constrain what it computes, which then decides how its arguments are split."""
    met: set[ast.AST] = set()
    return any(_constrains(site, one, met, 0) for one in options(function))


def _constrains(site: Site, function: Value, met: set[ast.AST], depth: int) -> bool:
    while isinstance(function, Transformed):
        function = function.inner
    if not isinstance(function, Function):
        # Of a module or something out of sight: what the program constrains may be in it.
        return not isinstance(function, Api) and _project_constrains(site)
    if function.node in met:
        return False
    met.add(function.node)
    file = function.place.file
    if depth > _DEPTH or _SPLITS.search(file.text(function.node)):
        return True
    calls = [one for one in walk(function.node) if isinstance(one, ast.Call)]
    return any(
        _constrains(site, one, met, depth + 1)
        for call in calls
        for one in options(site.program.value(file, call.func))
    )


def _project_constrains(site: Site) -> bool:
    """True if another file of the program names a constraint, or this file does so more than once."""
    return (
        any(
            file is not site.file and file.says(word)
            for file in site.program.together(site.file)
            for word in _CONSTRAINTS
        )
        or sum(site.file.source.text.count(word) for word in _CONSTRAINTS[:3]) > 1
    )
