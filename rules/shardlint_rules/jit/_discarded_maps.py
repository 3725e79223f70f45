"""Statements that only make new arrays: a tree map of what only computes, `x.at[i].set(y)`. Part of SL203."""

from __future__ import annotations

import ast

from shardlint.model.evaluator.trees import MAPS
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk_nodes

_UPDATES = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")
UPDATES = Lines(
    rf"[\w.\[\]\"']+\.at\[[^#\n]*\]\.(?:{'|'.join(_UPDATES)})\(", file_says=r"jax|jnp", saying=(".at[",)
)
"""Statements that begin with an update of an array."""
MAPPED = Lines(
    r"(?:\w+\.)*(?:tree_map|tree\.map)\(", file_says=r"jax", saying=("tree_map(", "tree.map(")
)
"""Statements that begin with a map over trees."""
# Methods of arrays that only give another one: `block_until_ready` waits, `item` may be called to wait.
_METHODS = frozenset(
    "reshape astype transpose squeeze ravel flatten swapaxes sum mean max min std var copy repeat view dot clip round"
    .split()
)
_PURE = ("jax.numpy.", "jax.nn.", "jax.random.", "jax.device_count", "jax.local_device_count")


def find_dropped_update(site: Site) -> ast.Call | None:
    """`x.at[i].set(y)` as a statement of its own; not of a reference in a kernel, which it changes."""
    match site.syntax:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(value=array)), attr=method)
            ) as call
        ) if method in _UPDATES and isinstance(array, ast.Name | ast.Attribute | ast.Subscript):
            named = last_name(array) or site.text(array)
            return None if "ref" in named.lower() or site.is_named_anywhere("pallas") else call
    return None


def is_map_dropped(site: Site, call: ast.Call) -> bool:
    """True if a statement is a tree map of a function that only computes, so that it does nothing."""
    if not isinstance(site.file.parent(call), ast.Expr) or len(call.args) < 2:
        return False
    if any(keyword.arg != "is_leaf" for keyword in call.keywords):
        return False
    function = call.args[0]
    if not isinstance(function, ast.Lambda):
        return _is_pure(site, function)
    if len(call.args) > 2 and not isinstance(function.body, ast.Call):
        return False  # the trees may be compared by it
    parts = list(walk_nodes(function.body))
    return isinstance(function.body, ast.Call | ast.BinOp | ast.Subscript | ast.IfExp) and all(
        (isinstance(one.func, ast.Attribute) and one.func.attr in _METHODS) or _is_pure(site, one.func)
        for one in parts
        if isinstance(one, ast.Call)
    )


def find_map_statement(site: Site) -> ast.Call | None:
    """The statement that is a map over trees."""
    call = site.syntax.value if isinstance(site.syntax, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    found = options(site.value(call.func))
    return call if found and all(isinstance(one, Api) and one.name in MAPS for one in found) else None


def _is_pure(site: Site, function: ast.expr) -> bool:
    """True if an expression names a function of jax that only computes."""
    found = options(site.value(function))
    return all(isinstance(one, Api) and one.name.startswith(_PURE) for one in found)
