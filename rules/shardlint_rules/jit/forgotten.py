"""Calls that are given a literal, though their function has a parameter for it."""

from __future__ import annotations

import ast

from shardlint.facts import FileFacts
from shardlint.program.values import Api, options
from shardlint.site import Site

PASSED = ("backend", "devices")
"""What functions take for the calls of jax they make, besides shardings. An axis name may be of another mesh."""
# A literal device of the host is meant, whatever the rest runs on.
_HOST = ("cpu",)


def literal(site: Site, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """The literal that a call of jax in a function is given where another call is given the function's parameter."""
    calls = [one for one in ast.walk(ast.Module(node.body, [])) if isinstance(one, ast.Call)]
    given = [(call, one.value) for call in calls for one in call.keywords if one.arg == name]
    if not any(isinstance(value, ast.Name) and value.id == name for _, value in given):
        return None
    for call, value in given:
        if not isinstance(value, ast.Constant) or value.value in (None, *_HOST) or _names(site.file, call, node, name):
            continue
        if all(isinstance(one, Api) and one.name.startswith("jax.") for one in options(site.value(call.func))):
            return value
    return None


def _names(file: FileFacts, call: ast.Call, function: ast.AST, name: str) -> bool:
    """Whether a branch around a call asks for the parameter, or a function in between has one of the name."""
    for outer in file.ancestors(call):
        if outer is function:
            return False
        if isinstance(outer, ast.FunctionDef | ast.Lambda) and name in {one.arg for one in outer.args.args}:
            return True
        tests = outer.test if isinstance(outer, ast.If | ast.IfExp | ast.While) else None
        if tests is not None and any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(tests)):
            return True
    return False
