"""Places of a function that each of its calls reaches."""

from __future__ import annotations

import ast

from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes

_PERHAPS = (
    ast.If,
    ast.IfExp,
    ast.BoolOp,
    ast.Match,
    ast.While,
    ast.For,
    ast.AsyncFor,
    ast.Try,
    ast.TryStar,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def met_by_every_call(file: FileFacts, node: ast.AST, function: ast.AST) -> bool:
    """Return whether each call of a function reaches a place in it: no test, loop or handler is on the path.

    A place in a function that is defined inside counts where that one is used on such a way itself: called there,
    decorated, or handed on. So `if whole: return first` / `return second` comes to neither for certain.
    """
    return _is_reached(file, node, function, 4)


def _is_reached(file: FileFacts, node: ast.AST, function: ast.AST, depth: int) -> bool:
    inner = node
    for outer in file.ancestors(node):
        if outer is function:
            return not _may_leave_before(function, node)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            if depth == 0 or _may_leave_before(outer, node):
                return False
            uses = [
                use
                for use in file.find_mentions(outer.name)
                if isinstance(use, ast.Name) and function in file.ancestors(use) and outer not in file.ancestors(use)
            ]
            return any(_is_reached(file, use, function, depth - 1) for use in uses)
        if isinstance(outer, _PERHAPS) and inner not in _unconditional_parts(outer):
            return False
        inner = outer
    return False


def _unconditional_parts(outer: ast.AST) -> tuple[ast.AST, ...]:
    """The parts of a statement or expression that are run whenever it is come to."""
    match outer:
        case ast.If(test=first) | ast.IfExp(test=first) | ast.While(test=first) | ast.Match(subject=first):
            return (first,)
        case ast.For(iter=first) | ast.AsyncFor(iter=first):
            return (first,)
        case ast.BoolOp(values=values):
            return (values[0],)
        case ast.Try(body=body, finalbody=last) | ast.TryStar(body=body, finalbody=last):
            return (*body[:1], *last)
    return ()


def _may_leave_before(function: ast.AST, node: ast.AST) -> bool:
    """Return whether a statement before the one of a node may leave the function."""
    line = getattr(node, "lineno", 0)
    for statement in getattr(function, "body", ()):
        if not isinstance(statement, ast.stmt) or statement.lineno >= line:
            continue
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if any(isinstance(part, ast.Return | ast.Raise) and part.lineno < line for part in walk_nodes(statement)):
            return True
    return False
