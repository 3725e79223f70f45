"""Sums on the host over the entries that a pmapped function returned, all of them the same: one for each device."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardlint.model.reach import lookup
from shardlint.model.values import api_name
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.shard_map.per_device import PerDevice, per_device, results

_COPIES = ("jax.device_get", "numpy.asarray", "numpy.array", "jax.block_until_ready")
SUMS = ("jax.numpy.sum", "numpy.sum", "builtins.sum")


def summed_copies(site: Site) -> tuple[ast.expr, PerDevice] | None:
    """What a call adds up that has a copy of one number for each device, and where that is made."""
    given = _summed(site, site.file, site.call)
    made = _made(site, given) if given is not None else None
    if given is None or made is None or made.function is None:
        return None
    found = list(results(site.program, made))
    if not found or any(one.over or one.maybe or not one.reduced for one in found):
        return None
    return None if _by_another(site, made) else (given, made)


def _made(site: Site, node: ast.expr) -> PerDevice | None:
    """What an expression has of a pmapped function, also of what the host has a copy of."""
    made = per_device(site.program, site.file, node)
    if made is not None:
        return made
    match node:
        case ast.Subscript(value=inner, slice=ast.Constant(value=str(key))):
            made = _made(site, inner)
            return replace(made, path=(*made.path, key)) if made is not None else None
        case ast.Name(id=name):
            bindings, _ = lookup(site.file, node, name)
            if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].value is not None:
                return _made(site, bindings[0].value)
        case ast.Call(args=[inner]) if _name(site, site.file, node.func) in _COPIES:
            return _made(site, inner)
    return None


def _by_another(site: Site, made: PerDevice) -> bool:
    """Whether another result of the same call is added up likewise: what is divided by it comes out right."""
    scope = site.scope.function()
    for call in site.file.walked(scope).calls if scope is not None else ():
        given = _summed(site, site.file, call) if call is not site.call else None
        other = _made(site, given) if given is not None else None
        if other is not None and other.call is made.call:
            return True
    return False


def _summed(site: Site, file: FileFacts, call: ast.Call) -> ast.expr | None:
    """The array of which a call adds up all entries, or those along the first dimension."""
    if any(one.arg != "axis" or not _first(one.value) for one in call.keywords):
        return None
    match call:
        case ast.Call(func=ast.Attribute(value=given, attr="sum"), args=[]):
            if not isinstance(given, ast.Name) or _name(site, file, call.func) == "":
                return given
        case ast.Call(func=ast.Attribute(value=given, attr="sum"), args=[axis]) if _first(axis):
            return given
    if _name(site, file, call.func) in SUMS and len(call.args) == 1:
        return call.args[0]
    return None


def _first(axis: ast.expr) -> bool:
    return isinstance(axis, ast.Constant) and axis.value in (0, None) and axis.value is not False


def _name(site: Site, file: FileFacts, node: ast.expr) -> str:
    return api_name(site.program.value(file, node))
