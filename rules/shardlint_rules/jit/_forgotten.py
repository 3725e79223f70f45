"""Calls that are given a literal, though their function has a parameter for it."""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk

PASSED = ("backend", "devices")
"""What functions take for the calls of jax they make, besides shardings. An axis name may be of another mesh."""
FORWARDED = ("devices", "axis_name", "pmap_axis_name")
"""What a function that takes it gives to all that it calls, or to none. Half of a model needs no mesh."""
_INSTEAD = ("mesh", "sharding", "shardings")
# A literal device of the host is meant, whatever the rest runs on.
_HOST = ("cpu",)


def literal(site: Site, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """The literal that a call of jax in a function is given where another call is given the function's parameter."""
    calls = [one for one in walk(ast.Module(node.body, [])) if isinstance(one, ast.Call)]
    given = [(call, one.value) for call in calls for one in call.keywords if one.arg == name]
    if not any(isinstance(value, ast.Name) and value.id == name for _, value in given):
        return None
    for call, value in given:
        if not isinstance(value, ast.Constant) or value.value in (None, *_HOST) or _names(site.file, call, node, name):
            continue
        if all(isinstance(one, Api) and one.name.startswith("jax.") for one in options(site.value(call.func))):
            return value
    return None


def left_out(
    site: Site, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, takes: Callable[[ast.Call], str | None]
) -> tuple[ast.Call, ast.Call, str] | None:
    """A call that is not given what another is given: that one, it, and what it calls.

    Of the function's own parameter, where both would take it under its name; `takes` says what takes it and was not
    given it.
    """
    calls = [one for one in walk(ast.Module(node.body, [])) if isinstance(one, ast.Call)]
    given = [
        call
        for call in calls
        if any(one.arg == name and isinstance(one.value, ast.Name) and one.value.id == name for one in call.keywords)
    ]
    for call in calls if given else ():
        if call in given or _names(site.file, call, node, name):
            continue
        if any(isinstance(one, ast.Name) and one.id == name for one in walk(call)):
            continue
        if any(one.arg in _INSTEAD for one in call.keywords):
            continue  # that says where as well
        taking = _of_jax(site, call, name) or takes(call)
        if taking is not None:
            return given[0], call, taking
    return None


def _of_jax(site: Site, call: ast.Call, name: str) -> str | None:
    """`jax.pmap` without devices."""
    if name != "devices" or last_name(call.func) != "pmap" or any(one.arg is None for one in call.keywords):
        return None
    found = options(site.value(call.func))
    return "pmap" if all(isinstance(one, Api) and one.name == "jax.pmap" for one in found) else None


def _names(file: FileFacts, call: ast.Call, function: ast.AST, name: str) -> bool:
    """Whether a branch around a call asks for the parameter, or a function in between has one of the name."""
    for outer in file.ancestors(call):
        if outer is function:
            return False
        if isinstance(outer, ast.FunctionDef | ast.Lambda) and name in {one.arg for one in outer.args.args}:
            return True
        tests = outer.test if isinstance(outer, ast.If | ast.IfExp | ast.While) else None
        if tests is not None and any(isinstance(one, ast.Name) and one.id == name for one in walk(tests)):
            return True
    return False
