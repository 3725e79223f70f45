"""Functions whose result is made from shapes alone: compiled, they read none of the arrays they are given."""

from __future__ import annotations

import ast

from shardlint.program.values import Api, Constant, Function, Value, options
from shardlint.site import Site
from shardlint_rules.jit.optimizers import init_of

_LIKE = tuple(f"jax.numpy.{name}" for name in ("zeros_like", "ones_like", "full_like", "empty_like"))
SHAPED = tuple(f"jax.numpy.{name}" for name in ("zeros", "ones", "empty", "full"))
"""Makers of an array of the shape they are given."""


def makes_fresh(site: Site, node: ast.expr | ast.FunctionDef) -> str | None:
    """What a function given to jit makes of its argument's shapes, in words; None where it does more."""
    if init_of(site, node):
        return "the optimizer's state"
    words = [_of_value(site, option) for option in options(site.value(node))]
    return words[0] if all(words) else None


def _of_value(site: Site, value: Value) -> str | None:
    if isinstance(value, Api):
        return f"the result of {value.name.rpartition('.')[2]}" if value.name in _LIKE else None
    if not isinstance(value, Function) or value.place.file is not site.file:
        return None
    returned = _single_result(site, value)
    names = {arg.arg for arg in (*value.node.args.posonlyargs, *value.node.args.args)}
    return _of_result(site, returned, names) if returned is not None else None


def _single_result(site: Site, function: Function) -> ast.expr | None:
    """What a function with nothing but a return statement returns."""
    node = function.node
    site.file.walked(site.file.scope(node))
    if isinstance(node, ast.Lambda):
        return node.body
    body = [
        part
        for part in node.body
        if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
    ]
    if len(body) == 1 and isinstance(body[0], ast.Return) and not isinstance(node, ast.AsyncFunctionDef):
        return body[0].value
    return None


def _of_result(site: Site, node: ast.expr, names: set[str]) -> str | None:
    if not isinstance(node, ast.Call) or any(keyword.arg != "dtype" for keyword in node.keywords):
        return None
    if init_of(site, node.func) and len(node.args) == 1 and _is(node.args[0], names):
        return "the optimizer's state"
    callee = site.value(node.func)
    if not isinstance(callee, Api):
        return None
    word = callee.name.rpartition(".")[2]
    if callee.name in _LIKE and node.args and _is(node.args[0], names):
        return f"the result of {word}" if all(_scalar(site, part) for part in node.args[1:]) else None
    if callee.name in SHAPED and node.args and _is_shape(node.args[0], names):
        return f"the result of {word}" if all(_scalar(site, part) for part in node.args[1:]) else None
    if callee.name == "jax.tree.map" and len(node.args) == 2 and _is(node.args[1], names):
        return makes_fresh(site, node.args[0])
    return None


def _is(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_shape(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape" and _is(node.value, names)


def _scalar(site: Site, node: ast.expr) -> bool:
    """A fill value or dtype that is no array."""
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return True
    return isinstance(site.value(node), Constant | Api)
