"""Reads of an argument inside a function of the project: whether each path reads the data of the array."""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardlint.facts.lifetime.inner_donations import is_call_on_every_path
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.signatures import parameters_of_definition
from shardlint.model.values import Function, Place
from shardlint.syntax import FileFacts

_DEEPEST = 3


def surely_reads_argument(
    evaluator: Evaluator,
    file: FileFacts,
    call: ast.Call,
    node: ast.AST,
    function: Function,
    reads: Callable[[FileFacts, ast.expr, int], bool],
    depth: int,
    mapped: bool = False,
) -> bool:
    """Return whether every path through a function reads the data of the call's argument at `node`.

    `reads` tells it of one place. With `mapped` the call is of `jax.tree.map`, whose trees fill its positions.
    """
    definition = function.node
    if depth > _DEEPEST or isinstance(definition, ast.AsyncFunctionDef):
        return False
    if isinstance(definition, ast.FunctionDef) and definition.decorator_list:
        return False
    name = _filled_parameter(evaluator, file, call, node, function, mapped)
    if name is None:
        return False
    inside = function.place.file
    scope = inside.scope(definition)
    if any(not isinstance(one, ast.Return) for one in inside.walk_scope(scope).returns):
        return False  # a generator reads when it is gone through
    if any(binding.kind != "param" for binding in inside.bindings(scope, name)):
        return False
    found = [one for one in inside.mentions_in(scope, name) if isinstance(one, ast.Name)]
    return any(_is_surely_reached(inside, definition, one) and reads(inside, one, depth + 1) for one in found)


def _filled_parameter(
    evaluator: Evaluator, file: FileFacts, call: ast.Call, node: ast.AST, function: Function, mapped: bool
) -> str | None:
    """The parameter that an argument of a call fills, as it is."""
    parameters = parameters_of_definition(function.node)
    if function.bound:
        parameters = parameters.without_first()
    if mapped:
        position = next((index for index, one in enumerate(call.args[1:]) if one is node), None)
        names = parameters.positional
        return names[position] if position is not None and position < len(names) else None
    given = parameters.bind_arguments(evaluator.read_arguments(Place(file, call)))
    return next((name for name, place in (given or {}).items() if place.node is node), None)


def _is_surely_reached(file: FileFacts, function: ast.AST, node: ast.AST) -> bool:
    """Return whether every path through a function reaches a place: nothing leaves it before."""
    if not is_call_on_every_path(file, node, function):
        return False
    if isinstance(function, ast.Lambda):
        return True
    line = file.statement(node).lineno
    returns = file.walk_scope(file.scope(function)).returns
    return not any(one.lineno < line for one in returns)
