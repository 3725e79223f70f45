"""Sums over the devices of `exp(x - m)` where m is the maximum that each device has of its own shard."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup
from shardlint.model.values import Function, api_name, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.shard_map._returned import returned

_DEPTH = 6
_SUMS = ("jax.numpy.sum",)
_LARGEST = ("jax.numpy.max", "jax.numpy.amax")
# What leaves the numbers as they are.
_KEEPING = ("jax.lax.stop_gradient", "jax.numpy.expand_dims", "jax.numpy.asarray", "jax.numpy.reshape")
_KEEPING_METHODS = ("astype", "reshape", "squeeze")

Written = tuple[FileFacts, ast.expr]


def own_maximum(site: Site, operand: ast.expr) -> ast.expr | None:
    """The `x.max()` by which each device moves what is summed; None where that is not seen."""
    file, node = _plain(site, (site.file, operand))
    if not isinstance(node, ast.Call):
        return None
    added = _of(site, (file, node), _SUMS, "sum")
    if added is None:
        return None
    file, inside = _plain(site, added)
    if (
        not isinstance(inside, ast.Call)
        or _name(site, file, inside.func) != "jax.numpy.exp"
        or not inside.args
    ):
        return None
    file, moved = _plain(site, (file, inside.args[0]))
    if not isinstance(moved, ast.BinOp) or not isinstance(moved.op, ast.Sub):
        return None
    where, largest = _plain(site, (file, moved.right))
    if not isinstance(largest, ast.Call):
        return None
    values = _of(site, (where, largest), _LARGEST, "max")
    if values is None or where is not file:
        return None
    return largest if file.text(values[1]) == file.text(moved.left) else None


def _of(site: Site, written: Written, names: tuple[str, ...], method: str) -> Written | None:
    """The array that `jnp.sum(x)` or `x.sum()` is of."""
    file, node = written
    assert isinstance(node, ast.Call)
    if _name(site, file, node.func) in names:
        return (file, node.args[0]) if node.args else None
    if isinstance(node.func, ast.Attribute) and node.func.attr == method:
        return None if _name(site, file, node.func) else (file, node.func.value)
    return None


def _plain(site: Site, written: Written, depth: int = 0) -> Written:
    """An expression without what leaves its numbers alone, through names and functions that return one expression."""
    file, node = written
    if depth > _DEPTH:
        return written
    match node:
        case ast.Name():
            bindings, _ = lookup(file, node, node.id)
            if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].value is not None:
                return _plain(site, (file, bindings[0].value), depth + 1)
        case ast.Subscript(slice=ast.Tuple(elts=parts)) if all(_whole(part) for part in parts):
            return _plain(site, (file, node.value), depth + 1)
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _KEEPING_METHODS:
            if not _name(site, file, node.func):
                return _plain(site, (file, inner), depth + 1)
            if _name(site, file, node.func) in _KEEPING and node.args:
                return _plain(site, (file, node.args[0]), depth + 1)
        case ast.Call(func=function, args=[first, *_]):
            if _name(site, file, function) in _KEEPING:
                return _plain(site, (file, first), depth + 1)
            found = options(site.program.value(file, function))
            if len(found) == 1 and isinstance(found[0], Function):
                given = returned(found[0])
                if given is not None:
                    return _plain(site, (found[0].place.file, given), depth + 1)
    return written


def _whole(part: ast.expr) -> bool:
    """Whether a part of an index takes all, or adds a dimension."""
    return (
        (isinstance(part, ast.Slice) and part.lower is None and part.upper is None)
        or (isinstance(part, ast.Constant) and part.value in (None, ...))
        or ast.unparse(part).rpartition(".")[2] == "newaxis"
    )


def _name(site: Site, file: FileFacts, node: ast.expr) -> str:
    return api_name(site.program.value(file, node))
