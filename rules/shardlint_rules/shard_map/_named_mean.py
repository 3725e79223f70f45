"""Functions that are called a mean and add up over the devices, with nothing that divides. Shared by no other rule."""

from __future__ import annotations

import ast
import re

from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk

SUMS = ("jax.lax.psum", "jax.lax.psum_scatter")
SAYS = ("mean", "avg", "averag")
_NAMED = regex(r"(^|_)(p?means?|avg|averaged?|averages|averaging)(_|$)", re.I)
_NOT = regex(r"sum|total|unnormal|unscaled", re.I)
_DIVIDES = regex(r"mean|avg|averag|div|scal|mul|recip|norm|var$|std|count|weight|size", re.I)


def called_a_mean(site: Site) -> str | None:
    """The name of the function around a sum over devices that says it is a mean; None where anything may divide."""
    call = site.call
    if not call.args or isinstance(call.args[0], ast.Constant):
        return None
    function = next(
        (
            one
            for one in site.file.ancestors(call)
            if isinstance(one, ast.FunctionDef) and _NAMED.search(one.name) and not _NOT.search(one.name)
        ),
        None,
    )
    if function is None:
        return None
    for node in walk(function):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult | ast.FloorDiv):
            return None
        if isinstance(node, ast.Call) and _DIVIDES.search(last_name(node.func)):
            return None
    return function.name if kept(site, call, function) else None


def kept(site: Site, call: ast.Call, function: ast.FunctionDef) -> bool:
    """Whether the sum is returned by the function or one in it, as it is or through a name."""
    for outer in site.file.ancestors(call):
        if isinstance(outer, ast.Return | ast.Lambda):
            return True
        if isinstance(outer, ast.Assign) and isinstance(outer.targets[0], ast.Name):
            name = outer.targets[0].id
            returns = [one.value for one in walk(function) if isinstance(one, ast.Return) and one.value is not None]
            return any(isinstance(part, ast.Name) and part.id == name for one in returns for part in walk(one))
        if outer is function or isinstance(outer, ast.FunctionDef):
            return False
    return False
