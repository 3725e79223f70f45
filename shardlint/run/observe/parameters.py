"""Random numbers that a region gives out as they were drawn: parameters of a model, which all devices share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .flat_operations import flatten_body
from .frames import user_lines_of_traceback
from .values import RANDOM


def parameter_draws(body: Any, split: frozenset[int]) -> Iterator[list[Any]]:
    """The lines that draw the results of a region which are made of no argument that is split (`split`, by number):
    a model is initialised there, on a batch that only gives it its shapes.
    """
    ops = flatten_body(body)
    data = {ops.arguments[at] for at in split}
    for result in ops.results:
        behind = ops.values_behind(result) if result is not None else set()
        if not data.isdisjoint(behind):
            continue
        for number in behind:
            op = ops.operations_by_value.get(number)
            if op is not None and op.name in RANDOM:
                yield from (op.at or user_lines_of_traceback(op.eqn.source_info.traceback))[:1]
