"""Gradients that a function reduces otherwise than the others beside them. Shared by rules.

`grads, info = pmean((grads, info), "batch")` and the same over "device" for one network, and for another one of the two
alone, or a sum in place of the mean.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.collectives import AXIS_AT
from shardlint.model.values import Constant
from shardlint.rules_api.rule import Calls
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import names_in, walk
from shardlint_rules.shard_map.beside_means import scales

REDUCES = Calls("jax.lax.pmean", "jax.lax.psum", function_says=("grad",))
_GRADIENT = regex(r"(?i)(?:^|_)grads?(?:ients?)?(?:_|$|\d)")


@dataclass(frozen=True)
class Reduced:
    """Names that are bound to themselves, reduced over an axis: by which collective, where."""

    names: frozenset[str]
    axis: str
    by: str
    call: ast.Call


@dataclass(frozen=True)
class Otherwise:
    """A reduction, and the one beside it that is different."""

    names: str
    axis: str
    other: Reduced


def axis_left_out(site: Site) -> Otherwise | None:
    """The axis that other gradients of the step are averaged over too, and those of the site are not."""
    own, others = _around(site)
    if own is None or own.by != "pmean":
        return None
    mine = [own, *(one for one in others if one.names == own.names)]
    if mine[0].call is not min((one.call for one in mine), key=lambda call: call.lineno):
        return None  # told once, at the first
    axes = {one.axis for one in mine}
    for other in others:
        its = {one.axis for one in others if one.names == other.names and one.by == "pmean"}
        if other.axis not in axes and other.by == "pmean" and axes < its and not _met(site, own, axes):
            return Otherwise(_said(own), other.axis, other)
    return None


def sum_among_means(site: Site) -> Otherwise | None:
    """The gradients that are added up, where others, or the same along another axis, are averaged."""
    own, others = _around(site)
    if own is None or own.by != "psum":
        return None
    for other in others:
        if other.by == "pmean" and (other.names == own.names or other.axis == own.axis) and not _divided(site, own):
            return Otherwise(_said(own), own.axis, other)
    return None


def _around(site: Site) -> tuple[Reduced | None, list[Reduced]]:
    """The site's own reduction of gradients, and the others in the outermost function around it."""
    found = _read(site, site.file.statement(site.call))
    if found is None or found.call is not site.call:
        return None, []
    functions = [one for one in site.file.ancestors(site.call) if isinstance(one, ast.FunctionDef)]
    if not functions:
        return None, []
    return found, [one for one in _in(site, functions[-1]) if one.call is not found.call]


def _in(site: Site, function: ast.FunctionDef) -> Iterator[Reduced]:
    for node in walk(function):
        if isinstance(node, ast.Assign):
            found = _read(site, node)
            if found is not None:
                yield found


def _read(site: Site, statement: ast.AST) -> Reduced | None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    call, target = statement.value, statement.targets[0]
    if not isinstance(call, ast.Call) or last_name(call.func) not in ("pmean", "psum") or not call.args:
        return None
    names = names_in(target)
    plain = isinstance(call.args[0], ast.Name | ast.Tuple) and names_in(call.args[0]) == names
    if not plain or not any(_GRADIENT.search(name) for name in names):
        return None
    given = next((one.value for one in call.keywords if one.arg == "axis_name"), None)
    at = AXIS_AT[last_name(call.func)]
    given = given if given is not None or len(call.args) <= at else call.args[at]
    axis = site.value(given) if given is not None else None
    if not isinstance(axis, Constant) or not isinstance(axis.value, str):
        return None
    return Reduced(frozenset(names), axis.value, last_name(call.func), call)


def _met(site: Site, own: Reduced, axes: set[str]) -> bool:
    """Whether the gradients go into another collective, which may be over the axis."""
    function = next(one for one in site.file.ancestors(own.call) if isinstance(one, ast.FunctionDef))
    gradients = {name for name in own.names if _GRADIENT.search(name)}
    for node in walk(function):
        if isinstance(node, ast.Call) and last_name(node.func) in AXIS_AT and node is not own.call:
            found = _read(site, site.file.statement(node))
            same = found is not None and found.names == own.names and found.axis in axes
            if not same and any(names_in(one) & gradients for one in node.args):
                return True
    return False


def _divided(site: Site, own: Reduced) -> bool:
    """Whether anything behind a sum may divide it, in its function."""
    function = next(one for one in site.file.ancestors(own.call) if isinstance(one, ast.FunctionDef))
    return any(
        isinstance(node, ast.BinOp | ast.AugAssign | ast.Call)
        and not (isinstance(node, ast.Call) and last_name(node.func) in AXIS_AT)
        and names_in(node) & own.names
        and scales(site, node)
        for node in walk(function)
        if getattr(node, "lineno", 0) >= own.call.lineno
    )


def _said(own: Reduced) -> str:
    return ", ".join(sorted(name for name in own.names if _GRADIENT.search(name)))
