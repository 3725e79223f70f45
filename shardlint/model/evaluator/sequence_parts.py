"""Parts of tuples, lists and specs. A slice of a PartitionSpec, `tuple(spec)` and `(*spec, None)` are plain tuples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    Constant,
    Items,
    Parameter,
    Place,
    Table,
    Value,
    Values,
    accept_assumed,
)

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

SPEC = "jax.sharding.PartitionSpec"


def spec_entries(evaluator: Evaluator, value: Value) -> Items | None:
    """The entries of a spec as a tuple, open where not all are known; None for what is not known to be a spec."""
    written = _written_spec(evaluator, value)
    if written is not None:
        return written
    if isinstance(value, Parameter) and isinstance(value.place.node, ast.arg):
        annotation = value.place.node.annotation
        if annotation is not None:
            kinds = annotated_classes(evaluator, Place(value.place.file, annotation))
            if kinds and all(isinstance(one, Api) and one.name == SPEC for one in kinds):
                return Items("tuple", (), True)
    return None


def _written_spec(evaluator: Values, value: Value) -> Items | None:
    if isinstance(value, CallResult) and value.api == SPEC and value.call is not None:
        call = value.call
        found = tuple(evaluator.value(place, call.environment) for place in call.positional)
        more = evaluate_star_arguments(evaluator, call) if call.open_positional else ()
        return Items("tuple", (*found, *(more or ())), more is None or call.open_keywords)
    return None


def evaluate_star_arguments(evaluator: Values, arguments: CallArguments) -> tuple[Value, ...] | None:
    """Return the values of the arguments of a call from its first `*args` on, one by one; None if they are not
    known.
    """
    call = arguments.place.node
    if not arguments.starred or not isinstance(call, ast.Call):
        return None
    found: list[Value] = []
    first = next(index for index, one in enumerate(call.args) if isinstance(one, ast.Starred))
    for argument in call.args[first:]:
        if not isinstance(argument, ast.Starred):
            found.append(evaluator.value(Place(arguments.place.file, argument), arguments.environment))
            continue
        whole = evaluator.value(Place(arguments.place.file, argument.value), arguments.environment)
        known = _written_spec(evaluator, whole) or whole
        if not isinstance(known, Items) or known.open or known.kind == "set":
            return None
        found.extend(known.items)
    return tuple(found)


def evaluate_star_keywords(evaluator: Values, arguments: CallArguments) -> Table | None:
    """Return the entries of the `**tables` of a call; None if one is not known."""
    call = arguments.place.node
    if not isinstance(call, ast.Call):
        return None
    found: list[tuple[object, Value]] = []
    for keyword in call.keywords:
        if keyword.arg is None:
            whole = accept_assumed(
                evaluator.value(Place(arguments.place.file, keyword.value), arguments.environment)
            )
            if not isinstance(whole, Table) or whole.open:
                return None
            found.extend(whole.entries)
    return Table(tuple(found)) if found else None


def slice_items(items: Items, bounds: tuple[Value | None, ...]) -> Items:
    """`whole[lower:upper:step]`; open where the bounds or what they count are not known."""
    numbers = [one.value if isinstance(one, Constant) else "unknown" for one in bounds if one is not None]
    known = [None if one is None else one.value for one in bounds if one is None or isinstance(one, Constant)]
    lower, upper, step = (one if isinstance(one, int) else None for one in (*known, None, None, None)[:3])
    if items.open or items.repeated or step == 0 or not all(isinstance(one, int) for one in numbers):
        return Items(items.kind, (), True)
    return Items(items.kind, items.items[slice(lower, upper, step)])
