"""Which part of a test decides its outcome alone, and which tests tracers do not pass."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import islice

from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.values import Api, Function, Place, options
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import sole_assigned_value, sole_returned_value
from shardlint.syntax.path_tests import MOST_TESTS, tests_on_path

# Functions of jax that are true where nothing is traced.
_UNTRACED = ("trace_state_clean", "is_concrete")
_DEPTH = 3

Decides = Callable[[Evaluator, Place, bool], bool]
"""Whether an expression by itself gives a test an outcome."""


def deciding_part(
    evaluator: Evaluator, test: Place, outcome: bool, decides: Decides, depth: int = 0
) -> ast.AST | None:
    """The part of a test that alone gives it this outcome, through names and functions of the project."""
    file, node = test.file, test.node
    if decides(evaluator, test, outcome):
        return node
    match node:
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.Or) is outcome:
            parts = (deciding_part(evaluator, Place(file, one), outcome, decides, depth) for one in values)
            return next((one for one in parts if one is not None), None)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return deciding_part(evaluator, Place(file, operand), not outcome, decides, depth)
        case ast.Call(
            func=ast.Name(id="any" | "all" as every),
            args=[ast.GeneratorExp(elt=asked, generators=[ast.comprehension(ifs=[])])],
        ) if (every == "any") is outcome:
            return deciding_part(evaluator, Place(file, asked), outcome, decides, depth)
        case ast.Name() | ast.Call() if depth < _DEPTH:
            source = _find_definition(evaluator, test)
            if source is not None and deciding_part(evaluator, source, outcome, decides, depth + 1) is not None:
                return node
    return None


def is_tracer_test(evaluator: Evaluator, test: Place, outcome: bool) -> bool:
    """True for `isinstance(x, Tracer)`, also among other classes, if it is to be true."""
    match test.node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) if outcome:
            parts = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
            classes = [one for part in parts for one in options(evaluator.value(Place(test.file, part)))]
            return any(_is_of_jax(one, "Tracer") for one in classes)
    return False


def tracers_leave_before(evaluator: Evaluator, file: FileFacts, node: ast.AST, function: ast.AST) -> bool:
    """Return whether a test in a function lets no tracer come to a node: `if isinstance(x, Tracer): return x`."""
    return any(
        deciding_part(evaluator, Place(file, test), not wanted, _is_passed_by_tracers) is not None
        for test, wanted in islice(tests_on_path(file, node, function), MOST_TESTS)
    )


def _is_passed_by_tracers(evaluator: Evaluator, test: Place, outcome: bool) -> bool:
    if isinstance(test.node, ast.Call) and not outcome:
        asked = options(evaluator.value(Place(test.file, test.node.func)))
        return all(any(_is_of_jax(one, name) for name in _UNTRACED) for one in asked)
    return is_tracer_test(evaluator, test, outcome)


def _is_of_jax(value: object, name: str) -> bool:
    return isinstance(value, Api) and value.name.startswith("jax.") and value.name.endswith(name)


def _find_definition(evaluator: Evaluator, place: Place) -> Place | None:
    """The expression that a name is assigned once, or that a called function of the project returns."""
    file, node = place.file, place.node
    if isinstance(node, ast.Name):
        value = sole_assigned_value(file, node)
        return Place(file, value) if value is not None else None
    functions = options(evaluator.value(Place(file, node.func))) if isinstance(node, ast.Call) else ()
    if len(functions) != 1 or not isinstance(functions[0], Function):
        return None
    inside, function = functions[0].place.file, functions[0].node
    if isinstance(function, ast.Lambda):
        return None
    returned = sole_returned_value(inside, function)
    return Place(inside, returned) if returned is not None else None
