"""What a parameter is, told by the calls of its function, when all of them are known."""

from __future__ import annotations

import ast

from shardlint.program import api
from shardlint.program.evaluate import Evaluator
from shardlint.program.flow import End, Ends, Flow
from shardlint.program.values import ClassValue, Function, Parameter, Place, Unknown, Value, choice, options

_DEPTH = 4
_CALLS = 20


class Callers:
    """Follows parameters to their arguments, through files and constructors."""

    def __init__(self, evaluator: Evaluator, flow: Flow) -> None:
        self.evaluator = evaluator
        self.flow = flow

    def followed(self, value: Value, depth: int = 0) -> Value:
        """The value with parameters replaced by what their callers give.

        A parameter stays one unless every call of its function is known and none goes through something that moves
        arguments (`functools.partial`, `lax.scan`).
        """
        return choice([self._one(option, depth) for option in options(value)])

    def _one(self, value: Value, depth: int) -> Value:
        if not isinstance(value, Parameter) or depth >= _DEPTH:
            return value
        file = value.place.file
        scope = file.home(value.place.node)
        if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) or scope.parent is None:
            return value
        owner = ClassValue(Place(file, scope.parent.node)) if scope.parent.kind == "class" else None
        if owner is not None and scope.node.name == "__init__":
            ends = self.flow.class_ends(file, owner.node)
        else:
            ends = self.flow.ends(file, scope.node)
        if not _all_direct(ends):
            return value
        function = Function(Place(file, scope.node), owner is not None, owner)
        found = [self._argument(function, end, value.name) for end in ends.found if end.kind == "called"]
        return choice([self.followed(argument, depth + 1) for argument in found])

    def _argument(self, function: Function, end: End, name: str) -> Value:
        arguments = self.evaluator.arguments(end.place)
        return self.evaluator.parameter(function, arguments, name) or Unknown(f"argument {name}")


def _all_direct(ends: Ends) -> bool:
    called = [end for end in ends.found if end.kind == "called"]
    if not ends.complete or not 0 < len(called) <= _CALLS:
        return False
    return not any(_moves_arguments(wrapper.api) for end in called for wrapper in end.wrappers)


def _moves_arguments(name: str) -> bool:
    transform = api.TRANSFORMS.get(name)
    return name in ("", "functools.partial") or transform is None or transform.now
