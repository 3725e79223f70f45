"""Statements that only make new arrays: a tree map of a pure lambda, `x.at[i].set(y)`. Part of SL203."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Lines
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._dropped import COUNTS, MAKING

_UPDATES = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")
UPDATES = Lines(
    rf"[\w.\[\]\"']+\.at\[[^#\n]*\]\.(?:{'|'.join(_UPDATES)})\(", file_says=r"jax|jnp", saying=(".at[",)
)
"""Statements that begin with an update of an array."""
# Methods of arrays that only give another one: `block_until_ready` waits, `item` may be called to wait.
_METHODS = frozenset(
    "reshape astype transpose squeeze ravel flatten swapaxes sum mean max min std var copy repeat view dot clip round"
    " get set add".split()
)
_PURE = ("jax.numpy.", "jax.lax.", "jax.nn.", "jax.random.")
_PLACING_NAMES = ("device_put", "with_sharding_constraint", "with_logical_constraint")
_BUILTIN = ("len", "int", "tuple", "max", "min", "range", "getattr", "isinstance")


def update_dropped(site: Site) -> ast.Call | None:
    """`x.at[i].set(y)` as a statement of its own; not of a reference in a kernel, which it changes."""
    call = site.syntax.value if isinstance(site.syntax, ast.Expr) else None
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr not in _UPDATES
    ):
        return None
    at = call.func.value
    array = at.value.value if isinstance(at, ast.Subscript) and isinstance(at.value, ast.Attribute) else None
    if array is None or not isinstance(array, ast.Name | ast.Attribute | ast.Subscript):
        return None
    named = last_name(array) or site.text(array)
    return None if "ref" in named.lower() or site.anywhere("pallas") else call


def library_dropped(site: Site) -> str | None:
    """The library function that a statement calls for an array in another place, and nothing else.

    Of flax its logical constraints; of libraries that are not known what is called as the functions of jax are.
    """
    if not isinstance(site.file.parent(site.call), ast.Expr) or len(site.call.args) < 2:
        return None
    found = options(site.value(site.call.func))
    names = {one.name for one in found if isinstance(one, Api)}
    if len(names) != 1 or len(found) > 1:
        return None
    name = names.pop()
    return name if name.rpartition(".")[2] in _PLACING_NAMES and not name.startswith("jax.") else None


def map_dropped(site: Site) -> bool:
    """Whether a statement is a tree map of a lambda that only computes, so that it does nothing."""
    call = site.call
    if not isinstance(site.file.parent(call), ast.Expr) or len(call.args) != 2 or call.keywords:
        return False
    function = call.args[0]
    if isinstance(function, ast.Lambda):
        body = function.body
        return isinstance(body, ast.Call | ast.BinOp | ast.Subscript | ast.IfExp) and _only_computes(
            site, body
        )
    found = options(site.value(function))
    return bool(found) and all(isinstance(one, Api) and _is_pure(one.name) for one in found)


def _is_pure(name: str) -> bool:
    return (
        name in MAKING
        or name in ("jax.device_put", *COUNTS)
        or (name.startswith(_PURE) and not name.startswith("jax.lax.p"))
    )


def _only_computes(site: Site, body: ast.expr) -> bool:
    calls = [one for one in walk(body) if isinstance(one, ast.Call)]
    if any(isinstance(one, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for one in walk(body)):
        return False
    return all(_computes(site, one) for one in calls)


def _computes(site: Site, call: ast.Call) -> bool:
    found = options(site.value(call.func))
    if found and all(isinstance(one, Api) for one in found):
        return all(isinstance(one, Api) and _is_pure(one.name) for one in found)
    if isinstance(call.func, ast.Name):
        return call.func.id in _BUILTIN
    return isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
