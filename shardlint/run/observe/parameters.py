"""Random numbers that a region gives out as they were drawn: parameters of a model, which all devices share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .flat import flat
from .frames import of_traceback
from .values import RANDOM


def parameters(body: Any, split: frozenset[int]) -> Iterator[list[Any]]:
    """The lines that draw the results of a region which are made of no argument that is split (`split`, by number):
    a model is initialised there, on a batch that only gives it its shapes.
    """
    ops = flat(body)
    makers = {give: op for op in ops.ops for give in op.gives}
    data = {ops.arguments[at] for at in split}
    for result in ops.results:
        waiting, done = [result], set[int]()
        lines: list[Any] = []
        while waiting:
            number = waiting.pop()
            if number is None or number in done:
                continue
            done.add(number)
            if (op := makers.get(number)) is None:
                continue
            if op.name in RANDOM:
                lines += (op.at or of_traceback(op.eqn.source_info.traceback))[:1]
            waiting += op.takes
        if data.isdisjoint(done):
            yield from lines
