"""What arithmetic in the body of a `shard_map` or `pmap` makes of values, and what is noted where they meet.

The part of what expressions are (shardlint/model/manual/local_values.py) that knows no expressions.
"""

from __future__ import annotations

import ast
from abc import ABC
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model.manual.varying import (
    ALONG,
    BY_OWN,
    COLUMN_SUM,
    COLUMNS,
    COUNTED,
    CURVED,
    NONE,
    NOTHING,
    OWN_NORM,
    OWN_SUM,
    REMAINDER,
    ROWS,
    SCATTERED,
    SUMMED,
    Axes,
    Columns,
    Event,
    Known,
    Leaf,
    Local,
    Part,
    Product,
    Shape,
    Size,
    Told,
    Tree,
    combined,
    kept_kind,
    kept_spec,
)
from shardlint.model.manual.wholes import Wholes
from shardlint.model.values import CallResult, Constant, Parameter, Place, Value
from shardlint.syntax import FileFacts, last_name

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
        self.rooted: set[int] = set()
        """The statistics of `along` of which a root was taken."""
        self.along: list[tuple[Place, Axes, Leaf, str]] = []
        """Statistics along a split dimension: where, the axes it is split over, what of, and which."""
        self.wholes: Wholes | None = None
        """The arrays around the body of which it has shards."""
        self.sums: list[Axes] = []
        """The axes of each sum over devices."""
        self.summed_of: dict[int, str] = {}
        """What kind each of them is made of."""
        self.rows: list[tuple[Axes, Place, tuple[Place, ...]]] = []
        """The axes of each dimension whose part on a device was counted from 0, where that is, and the calls to it."""
        self.norms: list[tuple[Place, tuple[Place, ...]]] = []
        """Where norms were taken of what was scattered, and the calls to it."""
        self.of_means: set[ast.AST] = set()
        """The gradients of what is a mean over the data of a device, by the call that takes them."""
        """What was added on every device: where, along which axes it is replicated, what, and the calls to there."""

    def arithmetic(self, op: ast.operator, left: Local, right: Local, place: Place) -> Local:
        """What an operator makes of two values."""
        if isinstance(left, Tree) and isinstance(right, Tree) and isinstance(op, ast.Add):
            return Tree(left.items + right.items)
        if isinstance(op, ast.Div | ast.FloorDiv):
            self.cancelled |= self.but_own_sums(combined([left]).marks)
        kind = ""
        if isinstance(left, Leaf) and isinstance(right, Leaf) and left.kind == right.kind:
            kind = left.kind if isinstance(op, ast.Add | ast.Sub) else ""
            if isinstance(op, ast.Div) and left.kind == "sum" and left.over & right.over:
                kind = "masked"  # a sum by the number of what is valid in the shard
            elif isinstance(op, ast.Div) and left.kind == "mean" and left.over & right.over:
                kind = CURVED
        elif isinstance(op, ast.Mult | ast.Add | ast.Sub):
            for one, other in ((left, right), (right, left)):
                scale = isinstance(other, Known) and isinstance(other.value, Constant)
                if scale and isinstance(one, Leaf) and one.kind in ("mean", "sum"):
                    kind = one.kind
        elif isinstance(op, ast.Pow) and isinstance(left, Leaf) and left.kind == "mean" and left.over:
            kind = CURVED
        if isinstance(op, ast.Mod):
            kind = REMAINDER
        if isinstance(op, ast.Mult):
            self._placed(left, right, place)
        self._met_again(op, left, right)
        self._scaled(left, right)
        if isinstance(op, ast.Add) and any(isinstance(one, Leaf) and is_count(one) for one in (left, right)):
            kind = COUNTED
        kind = kind or kept_kind((left, right)) or self.turned(op, left, right)
        result = self.calls.still_random(combined([left, right], kind), left, right)
        if isinstance(op, ast.Div | ast.FloorDiv):
            result = self._divided(result, left, right, place)
        if isinstance(op, ast.Pow) and isinstance(right, Known) and right.value in (Constant(0.5), Constant(-0.5)):
            self.root_of(left)
        spec = product_spec(left, right) if isinstance(op, ast.MatMult) else kept_spec((left, right))
        return replace(result, spec=spec)

    def _divided(self, result: Leaf, left: Local, right: Local, place: Place) -> Leaf:
        """Note a sum over some axes that is divided by the number of all devices, or of those of a process."""
        if isinstance(left, Leaf) and isinstance(right, Leaf) and left.kind in ("sum", COLUMN_SUM) and is_count(right):
            own = (left.over | left.maybe) & right.reduced
            if own:
                number = self.calls.note(OWN_SUM, place, tuple(own), left)
                return replace(result, marks=result.marks | {number})
        own = self._of_own(left, right)
        if own:
            note = "" if isinstance(right, Leaf) else "rows"
            number = self.calls.note(BY_OWN, place, tuple(own), combined([left]), note)
            return replace(result, marks=result.marks | {number})
        counted = _counted(self.evaluator, right.value) if isinstance(right, Known) else None
        if counted is None or not isinstance(left, Leaf) or not left.kind.startswith(SUMMED):
            return result
        axes = self.sums[int(left.kind.removeprefix(SUMMED))]
        number = self.calls.note("sum by devices", place, tuple(axes), left, counted)
        return replace(result, marks=result.marks | {number})

    def _of_own(self, left: Local, right: Local) -> Axes:
        """The axes over which what is divided was added up, and along which the count is that of one device."""
        if not isinstance(left, Leaf) or not left.kind.startswith(SUMMED):
            return NONE
        number = int(left.kind.removeprefix(SUMMED))
        kind = self.summed_of.get(number, "")
        along = self.along[int(kind.removeprefix(ALONG))][3] if kind.startswith(ALONG) else ""
        if kind not in ("sum", COLUMN_SUM) and not along.startswith("sum"):
            return NONE
        match right:
            case Size(axes=axes) | Part(axes=axes):
                return axes & self.sums[number]
            case Leaf(kind="sum"):
                return right.sure & self.sums[number]
        return NONE

    def but_own_sums(self, marks: frozenset[int], over: Axes | None = None) -> frozenset[int]:
        """Marks without those of own sums divided by a count of all, or those of them along some axes."""
        return frozenset(
            number
            for number in marks
            if self.events[number].kind != OWN_SUM or (over is not None and not over & set(self.events[number].axes))
        )

    def _placed(self, left: Local, right: Local, place: Place) -> None:
        """Note an index along some axes by which parts of a dimension are counted that is split over others."""
        for index, size in ((left, right), (right, left)):
            if isinstance(index, Leaf) and index.kind == "index" and isinstance(size, Size):
                if size.axes and not index.over & size.axes:
                    self.calls.note("index of others", place, tuple(index.over), index, _listed(size.axes))
            elif isinstance(index, Leaf) and index.kind == "index" and isinstance(size, Known):
                node = place.node
                factor = (node.right if size is right else node.left) if isinstance(node, ast.BinOp) else None
                axes = self.wholes.split(Place(place.file, factor)) if factor is not None and self.wholes else NONE
                if axes & index.over:
                    self.calls.note("index by whole", place, tuple(axes & index.over), index)

    def turned(self, op: ast.operator | None, left: Local, right: Local) -> str:
        """The kind of numbers that count a split dimension, times what all devices hold: angles of positions."""
        for one, other in ((left, right), (right, left)):
            if not isinstance(one, Leaf) or not one.kind.startswith(ROWS):
                continue
            alike = isinstance(other, Known) or (isinstance(other, Leaf) and not other.over and not other.open)
            if alike and (op is None or isinstance(op, ast.Mult) or (isinstance(op, ast.Div) and one is left)):
                return one.kind
        return ""

    def compared(self, values: Sequence[Local], node: ast.Compare, file: FileFacts) -> None:
        """Note numbers that count a split dimension from 0, compared with those of the whole that was gathered."""
        if len(values) == 2 and isinstance(node.ops[0], ast.Eq):
            for one, other in (values, reversed(values)):
                self.chosen_by(one, self.counted(other), Place(file, node))
        rows = NONE.union(*(self.counted(one) for one in values))
        whole = any(isinstance(one, Leaf) and one.kind == COLUMNS and rows & one.reduced for one in values)
        if rows and whole:
            for one in values:
                self.note_rows("rows against all", one)

    def chosen_by(self, numbers: Local, axes: Axes, place: Place) -> None:
        """Note numbers, the same on all devices, that are looked for among those of a split dimension, from 0 on."""
        if axes and isinstance(numbers, Leaf) and numbers.traced and numbers.kind in ("", "key"):
            if all(numbers.same_over(axis) for axis in axes):
                self.calls.note("numbers of all", place, tuple(axes), numbers)

    def shifted(self, whole: Leaf, at: object, place: Place) -> None:
        """Note what brings together neighbours along a split dimension: at a device's border they are another's.

        Along the first dimension, that of the rows of a batch, any neighbour will do.
        """
        spec = whole.spec or ()
        if isinstance(at, int) and at != 0 and -len(spec) < at < len(spec) and spec[at] and whole.kind in ("", "key"):
            sure = at > 0 or isinstance(spec, Told)
            self.calls.note("shifted", place, tuple(spec[at]), whole, "" if sure else "?")

    def turned_round(self, whole: Leaf, way: object, place: Place) -> None:
        """Note a roll of a split first dimension: one each way is a stencil, and its rows are none of a batch."""
        spec = whole.spec or ()
        if isinstance(way, int) and spec and spec[0] and whole.kind in ("", "key") and not isinstance(spec, Columns):
            self.calls.note("rolled", place, tuple(spec[0]), whole, "on" if way > 0 else "back")

    def _scaled(self, left: Local, right: Local) -> None:
        """Note what was scattered over the devices, multiplied by a norm of the part that each device has."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Leaf) and isinstance(other, Leaf):
                if one.kind.startswith(OWN_NORM) and other.kind == SCATTERED and one.reduced & other.reduced:
                    at, chain = self.norms[int(one.kind.removeprefix(OWN_NORM))]
                    self.calls.note("own norm", at, tuple(one.reduced & other.reduced), one, chain=chain)

    def _met_again(self, op: ast.operator, left: Local, right: Local) -> None:
        """Note a statistic along a split dimension that meets what has this dimension still."""
        for one, other in ((left, right), (right, left)):
            if not isinstance(one, Leaf) or not one.kind.startswith(ALONG):
                continue
            number = int(one.kind.removeprefix(ALONG))
            place, axes, of, which = self.along[number]
            if isinstance(other, Leaf) and any(axes <= part for part in other.spec or ()):
                by_norm = isinstance(op, ast.Div) and one is right and _of_spread(place.node)
                by_norm = by_norm or (number in self.rooted and isinstance(op, ast.Div | ast.Mult))
                at = self.calls.note("along a split dimension", place, tuple(axes), of, f"{which}+")
                if by_norm:  # which says more than that it met the dimension
                    self.events[at] = replace(self.events[at], note="norm+")

    def root_of(self, value: Local) -> None:
        """Remember that a root was taken of a statistic along a split dimension: what it divides is normalised."""
        if isinstance(value, Leaf) and value.kind.startswith(ALONG):
            self.rooted.add(int(value.kind.removeprefix(ALONG)))

    def counted(self, index: Local) -> Axes:
        """The axes over which the dimension is split that these numbers count from 0."""
        rows = isinstance(index, Leaf) and index.kind.startswith(ROWS)
        return self.rows[int(index.kind.removeprefix(ROWS))][0] if rows and isinstance(index, Leaf) else NONE

    def note_rows(self, kind: str, rows: Local) -> None:
        """Note what becomes of numbers that count a split dimension from 0, where they are made."""
        if isinstance(rows, Leaf) and rows.kind.startswith(ROWS):
            axes, place, chain = self.rows[int(rows.kind.removeprefix(ROWS))]
            self.calls.note(kind, place, tuple(axes), NOTHING, chain=chain)

    def taken_by(self, table: Local, axes: Axes, place: Place) -> None:
        """Note a table that all devices hold, of which each takes the part that counts from 0."""
        if not axes:
            return
        if isinstance(table, Known):
            made_here = isinstance(table, Shape | Size) or not isinstance(table.value, Parameter | CallResult)
            if not made_here:
                self.calls.note("rows from 0", place, tuple(axes), NOTHING)
        elif isinstance(table, Leaf) and table.traced and all(table.same_over(axis) for axis in axes):
            self.calls.note("rows from 0", place, tuple(axes), table)


def is_count(leaf: Leaf) -> bool:
    """Whether a value is a sum over devices, also one with another number added to it."""
    return leaf.kind.startswith(SUMMED) or leaf.kind == COUNTED


def _counted(evaluator: Evaluator, value: Value) -> str | None:
    """Which devices a number is that of: `jax.device_count()`, `len(jax.local_devices())`."""
    if not isinstance(value, CallResult) or value.call is None or value.call.keywords:
        return None
    given = value.call.positional
    if value.api == "builtins.len" and len(given) == 1:
        listed = evaluator.value(given[0], value.call.environment)
        name = listed.api if isinstance(listed, CallResult) and listed.call and not listed.call.positional else ""
        return {"jax.devices": "all", "jax.local_devices": "local"}.get(name)
    return {"jax.device_count": "all", "jax.local_device_count": "local"}.get(value.api) if not given else None


def _whole_over(value: Local, axes: Axes) -> bool:
    return isinstance(value, Known) or (isinstance(value, Leaf) and all(value.same_over(axis) for axis in axes))


def _of_spread(node: ast.AST) -> bool:
    """Whether a statistic is a norm or a spread: no later sum over the devices makes up for dividing by it."""
    return isinstance(node, ast.Call) and last_name(node.func) in ("norm", "std", "var", "nanstd", "nanvar")


def _listed(axes: Axes) -> str:
    return " and ".join(sorted(f'"{one}"' if isinstance(one, str) else f"`{one.name}`" for one in axes))


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
