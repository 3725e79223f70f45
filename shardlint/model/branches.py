"""Which calls of a function come to a branch of it: what they give for the parameters that its tests ask about.

`if count is None:` is not run by a call that gives a count. Asked are tests of a parameter by itself: for None, for its
truth, for being equal to a constant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import Literal

from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.evaluator.test_outcomes import asks_for_shape, truth_of_test
from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Constant,
    Function,
    Items,
    ModuleValue,
    Parameter,
    Place,
    Table,
    Transformed,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import none_by_default
from shardlint.syntax.path_tests import MOST_TESTS, tests_on_path

_OPTIONAL = ("None", "Optional", "Any", "object")


@dataclass(frozen=True)
class Condition:
    """A condition on a parameter: it is None, is true, or equals `constant`. Without `wanted` the condition is
    negated.
    """

    name: str
    asks: Literal["none", "truth", "equals"]
    wanted: bool
    constant: object = None

    def is_met_by(self, value: Value) -> bool | None:
        """Return whether a value meets it; None where the text does not tell."""
        found = {self._truth_of_value(option) for option in options(value)}
        answer = found.pop() if len(found) == 1 else None
        return None if answer is None else answer is self.wanted

    def _truth_of_value(self, value: Value) -> bool | None:
        if self.asks == "none":
            return _is_none(value)
        if isinstance(value, Constant):
            return bool(value.value) if self.asks == "truth" else bool(value.value == self.constant)
        if self.asks == "truth" and isinstance(value, Items) and not value.open:
            return bool(value.items)
        return None


def find_conditions(file: FileFacts, node: ast.AST, function: Scope) -> tuple[Condition, ...]:
    """Return the conditions on the function's parameters from tests around a node, and from earlier tests that
    leave.
    """
    if not isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ()
    found: list[Condition] = []
    for test, wanted in islice(tests_on_path(file, node, function.node), MOST_TESTS):
        found += _find_conditions(file, function, test, wanted)
    return tuple(dict.fromkeys(found))


def is_ruled_out(evaluator: Evaluator, file: FileFacts, node: ast.AST) -> bool:
    """Return whether a test on the path to a node fails by an array's shape, or by a call's result: `if x.ndim == 3:`.

    A test of neither is no answer: a flag of a module may be set anew.
    """
    for test, wanted in islice(tests_on_path(file, node), MOST_TESTS):
        env = evaluator.environment(Place(file, node))
        asked = env.asked if env is not None else 0
        told = truth_of_test(evaluator, file, test, env)
        if told is not None and told[0] is not wanted and told[1] is None:
            if (env is not None and env.asked > asked) or asks_for_shape(evaluator, file, test, env):
                return True
    return False


def _find_conditions(file: FileFacts, function: Scope, test: ast.expr, wanted: bool) -> Iterator[Condition]:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _find_conditions(file, function, operand, not wanted)
        case ast.BoolOp(op=op, values=parts):
            if isinstance(op, ast.And) is wanted:  # all are true, or all are false
                for part in parts:
                    yield from _find_conditions(file, function, part, wanted)
        case ast.Name(id=name) if _is_parameter(file, function, test):
            yield Condition(name, "truth", wanted)
        case ast.Compare(
            left=ast.Name(id=name) as left, ops=[op], comparators=[ast.Constant(value=constant)]
        ):
            if _is_parameter(file, function, left) and isinstance(
                op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq
            ):
                same = isinstance(op, ast.Is | ast.Eq) is wanted
                yield Condition(name, "none" if constant is None else "equals", same, constant)


def _is_parameter(file: FileFacts, function: Scope, use: ast.Name) -> bool:
    """Return whether a name is an unchanged parameter of the function."""
    return file.remember_for_node("parameter of", use, lambda: _parameter_owner(file, use)) is function


def _parameter_owner(file: FileFacts, use: ast.Name) -> Scope | None:
    """The function that a name is a parameter of, as it was given."""
    bindings, owner = lookup_bindings(file, use, use.id)
    return owner if bindings and all(one.kind == "param" for one in bindings) else None


def may_meet_conditions(
    evaluator: Evaluator, file: FileFacts, function: Scope, conditions: tuple[Condition, ...], call: Place
) -> bool | None:
    """Return whether a call of a function may meet conditions on its parameters; None if one that must be None is
    unknown.

    What is not told counts as met otherwise: a mesh that is handed in may well be one.
    """
    owner = function.parent
    cls = ClassValue(Place(file, owner.node)) if owner is not None and owner.kind == "class" else None
    called = Function(Place(file, function.node), cls is not None, cls)
    arguments = evaluator.read_arguments(call)
    doubtful = False
    for condition in conditions:
        value = evaluator.bind_parameter(called, arguments, condition.name)
        met = condition.is_met_by(value) if value is not None else None
        if met is False:
            return False
        doubtful = doubtful or (met is None and condition.asks == "none" and condition.wanted)
    return None if doubtful else True


def _is_none(value: Value) -> bool | None:
    match value:
        case Constant():
            return value.value is None
        case Items() | Table() | Function() | ClassValue() | ModuleValue() | Transformed() | Api():
            return False
        case CallResult(by=ClassValue()):
            return False
        case CallResult(by=Api(name=name)) if name.startswith(("jax.", "numpy.", "equinox.", "flax.")):
            return False
        case Parameter():
            return _parameter_is_none(value)
    return None


def _parameter_is_none(parameter: Parameter) -> bool | None:
    """False for one that is annotated as something that is not None."""
    node = parameter.place.node
    annotation = node.annotation if isinstance(node, ast.arg) else None
    if annotation is None:
        return None
    text = parameter.place.file.source_text(annotation)
    if any(word in text for word in _OPTIONAL):
        return None
    home = parameter.place.file.evaluation_scope(node).node
    args = home.args if isinstance(home, ast.FunctionDef | ast.AsyncFunctionDef) else None
    if args is None:
        return None
    none = isinstance(node, ast.arg) and node.arg in none_by_default(args)
    return None if none else False
