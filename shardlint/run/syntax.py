"""Where in the source a thing is written that is only known by its call or its function."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from shardlint.verify.facts import Line

_KEYWORDS = {
    "donation": ("donate_argnums", "donate_argnames"),
    "replicated": ("out_shardings",),
    "recompiled": ("static_argnums", "static_argnames"),
}


def keyword(place: Line, kind: str) -> Line:
    """The line of the keyword that a finding of a jit is about, where its call goes over several lines."""
    words = _KEYWORDS.get(kind, ())
    calls = [one for one in _calls(place.file) if one.lineno <= place.line <= (one.end_lineno or 0)] if words else []
    # The innermost call with such a keyword; what stands on one line is one place.
    for one in sorted(calls, key=lambda each: (each.end_lineno or 0) - each.lineno):
        for each in one.keywords:
            if each.arg in words:
                return Line(place.file, each.lineno, place.function)
    return place


def returned(file: str, number: int) -> int:
    """The line of the only `return` of the function whose `def` (or first decorator) is at a line; 0 without one."""
    for node in _functions(file):
        if number in (node.lineno, *(one.lineno for one in node.decorator_list)):
            found = [one for each in node.body for one in _returns(each)]
            return found[0].lineno if len(found) == 1 else 0
    return 0


def _returns(node: ast.AST) -> list[ast.Return]:
    """The returns of a statement that are its function's own."""
    if isinstance(node, ast.Return):
        return [node]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return []
    return [one for child in ast.iter_child_nodes(node) for one in _returns(child)]


@cache
def tree(file: str) -> ast.AST:
    """The syntax of a file; of one that cannot be read as Python, that of an empty one."""
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@cache
def _calls(file: str) -> list[ast.Call]:
    return [one for one in ast.walk(tree(file)) if isinstance(one, ast.Call)]


@cache
def _functions(file: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in ast.walk(tree(file)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
