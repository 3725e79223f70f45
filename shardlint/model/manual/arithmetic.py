"""What arithmetic in the body of a `shard_map` or `pmap` makes of values, and what is noted where they meet.

The part of what expressions are (shardlint/model/manual/local_values.py) that knows no expressions.
"""

from __future__ import annotations

import ast
from abc import ABC
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model.manual.varying import (
    Axes,
    Columns,
    Event,
    Known,
    Leaf,
    Local,
    Product,
    Tree,
    combined,
    kept_spec,
)
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator
    from shardlint.model.manual.local_calls import LocalCalls


class Arithmetic(ABC):
    """Values that meet in a body, and what is remembered of them on the way."""

    calls: LocalCalls

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.events: list[Event] = []
        self.cancelled: set[int] = set()
        self.stacks: dict[ast.AST, int] = {}
        """How many dimensions a shard surely has that an untiled gather stacks, by the call."""

    def arithmetic(self, op: ast.operator, left: Local, right: Local, place: Place) -> Local:
        """What an operator makes of two values."""
        if isinstance(left, Tree) and isinstance(right, Tree) and isinstance(op, ast.Add):
            return Tree(left.items + right.items)
        self.calls.met(left, right)
        if isinstance(op, ast.Div | ast.FloorDiv):
            self.cancelled |= combined([left]).marks
        if isinstance(op, ast.MatMult):
            self.multiplied(left, right)
        result = self.calls.still_random(combined([left, right]), left, right)
        spec = product_spec(left, right) if isinstance(op, ast.MatMult) else kept_spec((left, right))
        return replace(result, spec=spec)

    def multiplied(self, *values: Local) -> None:
        """Note stacks of matrices, made by an untiled gather, of which a product is taken as if each were a matrix."""
        for one in values:
            if not isinstance(one, Leaf) or one.origin is None:
                continue
            if one.kind == "gathered" and self.stacks.get(one.origin.node, 0) > (0 if one is values[-1] else 1):
                self.calls.note("stack in a product", one.origin, tuple(one.reduced), one)
            elif one.kind == "gathered.T" and one is values[-1]:
                self.calls.note("stack in a product", one.origin, tuple(one.reduced), one, ".T")



def _whole_over(value: Local, axes: Axes) -> bool:
    return isinstance(value, Known) or (isinstance(value, Leaf) and all(value.same_over(axis) for axis in axes))


def product_spec(left: Local, right: Local) -> tuple[Axes, ...] | None:
    """How a matrix product is split, of arrays whose specs name their dimensions."""
    one = left.spec if isinstance(left, Leaf) else None
    two = right.spec if isinstance(right, Leaf) else None
    if not one and two is not None and len(two) == 2 and two[1]:
        return Columns((two[1],))
    if isinstance(one, Columns) or isinstance(two, Columns):
        return None
    if one is not None and len(one) == 1 and (two is None or len(two) == 2) and _whole_over(right, one[0]):
        return one  # rows that are split, by a matrix that is not
    if one is None or two is None or len(one) < 2 or len(two) != 2:
        return None
    return Product((*one[:-1], two[1]))
