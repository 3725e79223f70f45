"""Parts of tuples, lists and specs. A slice of a PartitionSpec, `tuple(spec)` and `(*spec, None)` are plain tuples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.evaluator.annotations import annotated
from shardlint.model.values import Api, CallResult, Constant, Items, Parameter, Place, Value

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

SPEC = "jax.sharding.PartitionSpec"


def entries(evaluator: Evaluator, value: Value) -> Items | None:
    """The entries of a spec as a tuple, open where not all are known; None for what is not known to be a spec."""
    if isinstance(value, CallResult) and value.api == SPEC and value.call is not None:
        call = value.call
        found = tuple(evaluator.value(place, call.environment) for place in call.positional)
        return Items("tuple", found, call.open_positional or call.open_keywords)
    if isinstance(value, Parameter) and isinstance(value.place.node, ast.arg):
        annotation = value.place.node.annotation
        if annotation is not None:
            kinds = annotated(evaluator, Place(value.place.file, annotation))
            if kinds and all(isinstance(one, Api) and one.name == SPEC for one in kinds):
                return Items("tuple", (), True)
    return None


def sliced(whole: Items, bounds: tuple[Value | None, ...]) -> Items:
    """`whole[lower:upper:step]`; open where the bounds or what they count are not known."""
    numbers = [one.value if isinstance(one, Constant) else "unknown" for one in bounds if one is not None]
    known = [None if one is None else one.value for one in bounds if one is None or isinstance(one, Constant)]
    lower, upper, step = (one if isinstance(one, int) else None for one in (*known, None, None, None)[:3])
    if whole.open or whole.repeated or step == 0 or not all(isinstance(one, int) for one in numbers):
        return Items(whole.kind, (), True)
    return Items(whole.kind, whole.items[slice(lower, upper, step)])
