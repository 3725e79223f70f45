"""Values of a parameter in all calls of its function, if all of them are known."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardlint.model import api
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.flow import Flow
from shardlint.model.function_uses import FunctionUse, FunctionUses
from shardlint.model.needs import Memo
from shardlint.model.values import (
    CallResult,
    ClassValue,
    Environment,
    Function,
    Parameter,
    Place,
    Transformed,
    Unknown,
    Value,
    choose_value,
    options,
)
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.guards import expected_to_fail

_DEPTH = 4
_CALLS = 20


class Callers:
    """Follows parameters to their arguments, through files and constructors."""

    def __init__(self, evaluator: Evaluator, flow: Flow) -> None:
        self.evaluator = evaluator
        self.flow = flow
        self._known: Memo[tuple[ast.AST, str, int], Value] = Memo(evaluator.project.needs)

    def followed(self, value: Value, depth: int = 0) -> Value:
        """The value with parameters replaced by what their callers give.

        A parameter stays one unless every call of its function is known and none goes through something that moves
        arguments (`functools.partial`, `lax.scan`).
        """
        return choose_value([self._value_from_callers(option, depth) for option in options(value)])

    def visible_argument_values(self, value: Parameter) -> list[Value]:
        """Return the values of a parameter in the visible calls, each as it is written there. There may be other
        calls.
        """
        known = self.find_calls_around(
            value.place.file, value.place.file.evaluation_scope(value.place.node), every=True
        )
        if known is None:
            return []
        function, ends = known
        direct = [end for end in _without_expected_errors(ends) if not moves_call_arguments(end)]
        return [self._argument_value(function, end, value.name) for end in direct[:_CALLS]]

    def _value_from_callers(self, value: Value, depth: int) -> Value:
        if not isinstance(value, Parameter) or depth >= _DEPTH:
            return value
        key = value.place.node, value.name, depth
        return self.evaluator.memoize_if_complete(self._known, key, lambda: self._resolve_by_calls(value, depth))

    def _resolve_by_calls(self, value: Parameter, depth: int) -> Value:
        known = self._calls_of_function(value)
        if known is None or not _are_calls_direct(known[1]):
            return value
        function, ends = known
        found = [self._argument_value(function, end, value.name) for end in _without_expected_errors(ends)]
        return choose_value([self.followed(argument, depth + 1) for argument in found])

    def bind_receiver(self, function: Function, end: FunctionUse, environment: Environment | None) -> Function:
        """The function as it is called at an end: a method knows the object it is called on."""
        place = end.place
        if function.owner is None or not isinstance(place.node, ast.Call):
            return function
        if getattr(function.node, "name", "") == "__init__":
            made = CallResult(function.owner, self.evaluator.read_arguments(place, environment))
            return replace(function, receiver=made)
        for option in options(self.evaluator.value(Place(place.file, place.node.func), environment)):
            inner: Value = option
            while isinstance(inner, Transformed):
                inner = inner.inner
            if isinstance(inner, Function) and inner.node is function.node:
                return inner
        return function

    def _calls_of_function(self, value: Parameter) -> tuple[Function, FunctionUses] | None:
        """The function whose parameter it is, and where it is called."""
        return self.find_calls_around(value.place.file, value.place.file.evaluation_scope(value.place.node))

    def find_calls_around(
        self, file: FileFacts, scope: Scope, every: bool = False
    ) -> tuple[Function, FunctionUses] | None:
        """A function, and where it is called; a class where its instances are made, for its `__init__`."""
        if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) or scope.parent is None:
            return None
        owner = ClassValue(Place(file, scope.parent.node)) if scope.parent.kind == "class" else None
        if owner is not None and scope.node.name == "__init__":
            ends = self.flow.in_sight(file, owner.node) if every else self.flow.find_class_calls(file, owner.node)
        else:
            ends = self.flow.in_sight(file, scope.node) if every else self.flow.ends(file, scope.node)
        return Function(Place(file, scope.node), owner is not None, owner), ends

    def _argument_value(self, function: Function, end: FunctionUse, name: str) -> Value:
        arguments = self.evaluator.read_arguments(end.place)
        return self.evaluator.bind_parameter(function, arguments, name) or Unknown(f"argument {name}")


def _are_calls_direct(uses: FunctionUses) -> bool:
    called = _without_expected_errors(uses)
    if not uses.complete or not 0 < len(called) <= _CALLS:
        return False
    return not any(moves_call_arguments(end) for end in called)


def _without_expected_errors(uses: FunctionUses) -> list[FunctionUse]:
    """The calls, but those that a test expects to raise: what they give is wrong on purpose."""
    called = [end for end in uses.found if end.kind == "called"]
    return [end for end in called if not expected_to_fail(end.place.file, end.place.node)]


def moves_call_arguments(end: FunctionUse) -> bool:
    """Return whether code between a call and its function moves arguments."""
    return any(_moves_arguments(wrapper.api) for wrapper in end.wrappers)


def _moves_arguments(name: str) -> bool:
    transform = api.TRANSFORMS.get(name)
    return name in ("", "functools.partial") or transform is None or transform.now
