"""Enclosing statements of a node: the nearest ones of some kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.syntax.file import FileFacts
from shardlint.syntax.names import called_name

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def enclosing_nodes(file: FileFacts, node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """Those of the ancestors that are of some kinds, innermost first.

    What lies between is passed once for all that ask: a chain of `elif` is as deep as it is long.
    """
    found = _nearest_ancestor(file, node, kinds)
    while found is not None:
        yield found
        found = _nearest_ancestor(file, found, kinds)


def is_exception_caught(file: FileFacts, node: ast.AST) -> bool:
    """Return whether a node is in the body of a `try` with handlers, or of `with suppress(...)`, in its own
    function.
    """
    return any(True for _ in caught_around(file, node))


def caught_around(file: FileFacts, node: ast.AST) -> Iterator[ast.expr | None]:
    """The classes of errors that are caught around a node in its own function, as they are written; None for all."""
    for outer in enclosing_nodes(file, node, ast.Try, ast.With, *_FUNCTIONS):
        match outer:
            case ast.Try(body=body, handlers=handlers) if is_in_block(node, body):
                yield from (one.type for one in handlers)
            case ast.With(body=body, items=items) if is_in_block(node, body):
                yield from (kind for item in items for kind in _suppressed_errors(item.context_expr))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return


def enclosing_block(file: FileFacts, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of which one is: a body, what stands under `else`, or under `finally`; else itself alone."""
    outer = file.parent(statement)
    blocks = (getattr(outer, name, None) for name in ("body", "orelse", "finalbody"))
    return next((one for one in blocks if isinstance(one, list) and statement in one), [statement])


def is_in_block(node: ast.AST, block: Sequence[ast.stmt]) -> bool:
    """Return whether a node is in one of the statements of a block, by their positions."""
    place = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    last = block[-1]
    return (block[0].lineno, block[0].col_offset) <= place < (last.end_lineno or 0, last.end_col_offset or 0)


def _suppressed_errors(entered: ast.expr) -> list[ast.expr]:
    """Return the exceptions that `contextlib.suppress(...)` suppresses."""
    return entered.args if isinstance(entered, ast.Call) and called_name(entered) == "suppress" else []


def _nearest_ancestor(file: FileFacts, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
    known = file.nearest.setdefault(kinds, {})
    passed: list[ast.AST] = []
    found: ast.AST | None = node
    while found is not None and found not in known:
        passed.append(found)
        found = file.parent(found)
        if isinstance(found, kinds):
            break
    else:
        found = known[found] if found is not None else None
    known.update(dict.fromkeys(passed, found))
    return found
