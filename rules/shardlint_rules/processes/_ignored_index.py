"""Callbacks that give the same for each index: functions, partials of them, and what calls them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from shardlint.model import Program
from shardlint.model.values import Function, Place, Transformed, Value, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

_DEPTH = 3
_Bound = Mapping[str, Place]
_NOTHING: _Bound = MappingProxyType({})


@dataclass(frozen=True)
class Ignoring:
    """The parameter that nothing reads, and what is given back for each index."""

    index: str
    result: Place


def ignores(program: Program, callback: Value) -> Ignoring | None:
    """How a callback of one argument ignores it; None where it reads it, or is not seen."""
    if isinstance(callback, Transformed) and callback.api.name == "functools.partial":
        inner, call = callback.inner, callback.call
        if not isinstance(inner, Function) or call is None or call.open_positional or call.open_keywords:
            return None
        given = dict(zip(inner.positional, call.positional[1:], strict=False)) | dict(call.keywords)
        return _ignores(program, inner, given, 0)
    return _ignores(program, callback, _NOTHING, 0) if isinstance(callback, Function) else None


def _ignores(program: Program, function: Function, given: _Bound, depth: int) -> Ignoring | None:
    file, node = function.place.file, function.node
    left = [name for name in function.positional if name not in given]
    result = _result(file, node)
    if len(left) != 1 or node.args.vararg is not None or result is None:
        return None
    reads = [one for one in walk(node) if isinstance(one, ast.Name) and one.id == left[0]]
    if not reads:
        bound = given.get(result.id) if isinstance(result, ast.Name) else None
        return Ignoring(left[0], bound if bound is not None else Place(file, result))
    if len(reads) != 1 or not isinstance(result, ast.Call) or depth >= _DEPTH:
        return None
    return _handed_on(program, file, result, reads[0], given, depth)


def _handed_on(
    program: Program, file: FileFacts, call: ast.Call, read: ast.Name, given: _Bound, depth: int
) -> Ignoring | None:
    """The same of the function that the index is handed on to: `lambda index: rows(array, index)`."""
    found = options(program.value(file, call.func))
    if len(found) != 1 or not isinstance(found[0], Function) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    written = dict(zip(found[0].positional, call.args, strict=False))
    written |= {one.arg: one.value for one in call.keywords if one.arg is not None}
    if read not in written.values():
        return None
    handed = {
        name: given[node.id] if isinstance(node, ast.Name) and node.id in given else Place(file, node)
        for name, node in written.items()
        if node is not read
    }
    return _ignores(program, found[0], handed, depth + 1)


def _result(file: FileFacts, node: ast.AST) -> ast.expr | None:
    """What a callback returns, where that is one expression."""
    if isinstance(node, ast.Lambda):
        return node.body
    if not isinstance(node, ast.FunctionDef):
        return None
    returns = file.walked(file.scope(node)).returns
    return returns[0].value if len(returns) == 1 and isinstance(returns[0], ast.Return) else None
