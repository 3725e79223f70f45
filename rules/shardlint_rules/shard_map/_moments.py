"""The mean of `x` and that of its square, in one function, averaged over different axes."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup
from shardlint.model.values import Constant, Items, api_name
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint.syntax.nodes import walk

_PMEAN = "jax.lax.pmean"


def other_axes(site: Site) -> tuple[ast.Call, str, str] | None:
    """The `pmean` of the first moment that belongs to this one of the second, with the axes of both in words."""
    scope = site.scope.function()
    moment = _moment(site, site.call)
    if scope is None or moment is None or not moment[1]:
        return None
    firsts = []
    for call in site.file.walked(scope).calls:
        if call is not site.call and _name(site, call.func) == _PMEAN:
            one = _moment(site, call)
            if one is not None and one[0] == moment[0] and not one[1]:
                firsts.append(call)
    if any(_again(site, one, scope) for one in (site.call, *firsts)):
        return None
    mine, others = _axes(site, site.call), [_axes(site, call) for call in firsts]
    if len(firsts) != 1 or mine is None or others[0] is None or mine == others[0]:
        return None
    return firsts[0], _words(others[0]), _words(mine)


def _again(site: Site, call: ast.Call, scope: Scope) -> bool:
    """Whether what a `pmean` gives goes through another collective."""
    for other in site.file.walked(scope).calls:
        if other is call or not _name(site, other.func).startswith("jax.lax.p") or not other.args:
            continue
        if _settled(site, other.args[0]) is call or call in walk(other.args[0]):
            return True
    return False


def _moment(site: Site, call: ast.Call) -> tuple[str, bool] | None:
    """Of which array a `pmean` is the first (False) or second (True) moment."""
    mean = _settled(site, call.args[0]) if call.args else None
    if not isinstance(mean, ast.Call):
        return None
    if _name(site, mean.func) == "jax.numpy.mean" and mean.args:
        of = mean.args[0]
    elif isinstance(mean.func, ast.Attribute) and mean.func.attr == "mean" and not _name(site, mean.func):
        of = mean.func.value
    else:
        return None
    inner = _settled(site, of)
    match inner:
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if site.text(left) == site.text(right):
            return site.text(left), True
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=2)):
            return site.text(left), True
        case ast.Call(args=[first]) if _name(site, inner.func) in ("jax.numpy.square", "jax.lax.square"):
            return site.text(first), True
    return site.text(of), False


def _settled(site: Site, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].value is not None:
            return bindings[0].value
    return node


def _axes(site: Site, call: ast.Call) -> frozenset[str] | None:
    node = next((one.value for one in call.keywords if one.arg == "axis_name"), None)
    node = node or (call.args[1] if len(call.args) > 1 else None)
    value = site.value(node) if node is not None else None
    parts = value.items if isinstance(value, Items) else (value,)
    names = [one.value for one in parts if isinstance(one, Constant) and isinstance(one.value, str)]
    return frozenset(names) if names and len(names) == len(parts) else None


def _words(axes: frozenset[str]) -> str:
    return " and ".join(f'"{one}"' for one in sorted(axes))


def _name(site: Site, node: ast.expr) -> str:
    return api_name(site.value(node))
