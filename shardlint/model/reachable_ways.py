"""Of the ways to a function, those that can be gone and come to a branch of it."""

from __future__ import annotations

import ast

from shardlint.model import api
from shardlint.model.branches import Condition, may_meet_conditions
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.function_uses import FunctionUse, FunctionUses
from shardlint.model.signatures import SHARDING_SETTINGS, jitted_value, parameters_of
from shardlint.model.values import Items, Place, options
from shardlint.syntax import FileFacts, Scope


def possible_ends(
    evaluator: Evaluator, file: FileFacts, scope: Scope, conditions: tuple[Condition, ...], uses: FunctionUses
) -> list[tuple[FunctionUse, bool]]:
    """The ends of a function that can be, each with whether it surely meets the conditions.

    Left out are calls that do not fit its parameters, as stale scripts have them, and those that do not come to the
    branch. A transform of the function is left out with its calls, where all of them are known.
    """
    sure = {
        index: _call_reaches_branch(evaluator, file, scope, conditions, end)
        for index, end in enumerate(uses.found)
        if end.kind == "called"
    }
    found: list[tuple[FunctionUse, bool]] = []
    for index, end in enumerate(uses.found):
        if end.kind == "called":
            answer = sure[index]
            if answer is not None:
                found.append((end, answer))
        elif end.kind == "escaped" or (_can_be_called(evaluator, end) and not _is_never_called(uses, end, sure)):
            found.append((end, True))
    return found


def _is_never_called(uses: FunctionUses, wrapped: FunctionUse, sure: dict[int, bool | None]) -> bool:
    """Return whether all calls of a transformed function are known, and none of them is possible."""
    length = len(wrapped.wrappers)
    through = [
        index
        for index, end in enumerate(uses.found)
        if end.wrappers[:length] == wrapped.wrappers and end is not wrapped
    ]
    lost = uses.cut or any(uses.found[index].kind == "escaped" for index in through)
    calls = [index for index in through if index in sure]
    return not lost and bool(calls) and all(sure[index] is None for index in calls)


def _call_reaches_branch(
    evaluator: Evaluator, file: FileFacts, scope: Scope, conditions: tuple[Condition, ...], end: FunctionUse
) -> bool | None:
    """Return whether a call surely reaches the branch; None if it does not, or cannot be a call of the function."""
    names = [wrapper.api for wrapper in end.wrappers]
    if any(map(_calls_itself, names)):
        return True
    if not _call_fits_function(evaluator, end):
        return None
    if not conditions or "functools.partial" in names:
        return True
    met = may_meet_conditions(evaluator, file, scope, conditions, end.place)
    return None if met is False else met is True


def _calls_itself(name: str) -> bool:
    """Return whether a transform calls the function with arguments of its own."""
    transform = api.TRANSFORMS.get(name)
    return name == "" or transform is None or transform.now


def _call_fits_function(evaluator: Evaluator, end: FunctionUse) -> bool:
    call = end.place.node
    if not isinstance(call, ast.Call):
        return True
    value = evaluator.value(Place(end.place.file, call.func))
    parameters = parameters_of(value, evaluator)
    return parameters is None or parameters.accepts_call(evaluator.read_arguments(end.place))


def _can_be_called(evaluator: Evaluator, end: FunctionUse) -> bool:
    """Return whether a jit has as many shardings for arguments as the function takes arguments."""
    for option in options(evaluator.value(end.place)):
        function = jitted_value(option, evaluator)
        place = function.setting_expression(SHARDING_SETTINGS[0]) if function is not None else None
        if function is None or place is None or function.parameters is None or function.parameters.star:
            return True
        given = evaluator.value(place, function.settings.environment)
        if not isinstance(given, Items) or given.kind != "tuple" or given.open:
            return True
        static = any(name.startswith("static") for name in function.settings.keywords)
        least = 0 if static else function.parameters.required
        if least <= len(given.items) <= len(function.parameters.positional):
            return True
    return False
