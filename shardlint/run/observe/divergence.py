"""Where in a mapped function what all devices hold alike first takes up what each has made of its own data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .flat_operations import FlatOperation, FlatRegion, flatten_body
from .frames import user_lines_of_traceback
from .values import GATHER, MIX, REDUCE, inner_jaxpr

_MIX = MIX | {"max", "min", "pow", "integer_pow"}


def lines_where_met(kept: Sequence[Any], equal: frozenset[int], at: int) -> list[Any]:
    """The user's lines of the first operation on the way to result `at` that brings together an array that is the same
    on all devices and one of its shape that is not; `equal` are the arguments of the program that are the same on all.
    """
    one = kept[0] if len(kept) == 1 else None
    if one is None:
        return []
    eqn, _, _, _, split = one
    ops = flatten_body(inner_jaxpr(eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))))
    own = {number for where, number in enumerate(ops.arguments) if split.get(where, -1) not in equal and where in split}
    given = set(ops.arguments)
    for op in ops.ops:
        takes = {one for one in op.takes if one is not None}
        if op.name == "axis_index" or (op.name not in REDUCE | GATHER and takes & own):
            own.update(op.gives)
        if takes & given:
            given.update(op.gives)
    result = ops.results[at] if at < len(ops.results) else None
    if result is None:
        return []
    for op in _operations_before(ops, result):
        shape = _shape_without_device(ops, op.gives[0])
        like = [
            one
            for one in op.takes
            if one is not None and one in given and _shape_without_device(ops, one) == shape
        ]
        if (
            op.name in _MIX
            and shape == _shape_without_device(ops, result)
            and {one in own for one in like} == {True, False}
        ):
            return op.at or user_lines_of_traceback(op.eqn.source_info.traceback)
    return []


def _operations_before(ops: FlatRegion, result: int) -> list[FlatOperation]:
    """The operations that have part in a result, in order."""
    wanted = ops.values_behind(result)
    return [op for op in ops.ops if not wanted.isdisjoint(op.gives)]


def _shape_without_device(ops: FlatRegion, number: int) -> tuple[int, ...]:
    """A shape without the dimension of one that `pmap` gives to each device."""
    shape = ops.shape_of_value(number)
    return shape[1:] if shape[:1] == (1,) else shape
