"""Detection of operations that treat a device's shard as the whole dimension: a softmax, a norm, an index, a running
sum, positions, a shift. Also functions of a partial sum that is not yet reduced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .averaged import averaged
from .dims import Part, after
from .flat import LOOP, Flat, Op, flat
from .sink import quiet
from .slots import counts_places, slots
from .values import GATHER, MOVE, NONE, REDUCE, SCATTER, Names, Region, axes_of
from .whole_first import each_round, whole_first

_COLLECTIVES = REDUCE | GATHER | SCATTER | MOVE
_BENDS = frozenset(("tanh", "logistic", "erf", "exp", "exp2", "expm1", "sin", "cos", "erfc"))
_RUNNING = frozenset(("cumsum", "cumprod", "cumlogsumexp"))
_LAID = frozenset(
    (LOOP, "slice", "dynamic_slice", "squeeze", "reshape", "broadcast_in_dim", "transpose", "convert_element_type",
     "concatenate", "pad", "split", "gather", "pvary", "pcast", "copy", "select_n")
)  # fmt: skip
_CARRIED = _LAID | {
    "reduce_sum",
    "reduce_prod",
    "cumsum",
    "cumprod",
    "add",
    "mul",
    "sub",
    "exp",
    "log",
    "dot_general",
}
_PLACES = frozenset(("add", "sub"))
_LEAST = 4


@quiet
def own_parts(body: Any, dimensions: Sequence[Sequence[Names]], region: Region) -> None:
    """Tell what is seen in a region."""
    manual = frozenset(region.sizes)
    ops = flat(body)
    known: dict[int, Part] = {}
    for number, dims in zip(ops.arguments, dimensions, strict=False):
        shape = ops.shape(number)
        split = [axes & manual for axes in dims[: len(shape)]]
        if region.pmap and shape[:1] == (1,) and (len(shape) > 2 or (len(shape) == 2 and ops.kind(number) != "f")):
            # What pmap gives to each device is rows of a batch, as a rule: the first dimension that is left. A vector
            # of floats may be a bias.
            split[1] |= split[0]
        known[number] = Part(
            tuple(axes if size > 1 else NONE for axes, size in zip(split, shape, strict=True))
        )
    seen = _Seen(ops, known, region)
    for op in ops.ops:
        seen.look(op)
        known.update(zip(op.gives, after(op, ops, known, region.sizes), strict=False))
    seen.results()
    if not region.pmap:
        _look_at_single_rows(ops, dimensions, region)
    averaged(ops, known, region)
    slots(ops, known, region)
    whole_first(ops, region)
    each_round(body, region)


def _look_at_single_rows(ops: Flat, dimensions: Sequence[Sequence[Names]], region: Region) -> None:
    """Find means over dimensions of which each device has a single row."""
    known = {
        number: Part(tuple(axes if size == 1 else NONE for axes, size in zip(dims, ops.shape(number), strict=False)))
        for number, dims in zip(ops.arguments, dimensions, strict=False)
    }
    if not any(one.axes for one in known.values()):
        return
    seen = _Seen(ops, known, region)
    for op in ops.ops:
        seen.look_at_single_row(op)
        known.update(zip(op.gives, after(op, ops, known, region.sizes), strict=False))


class _Seen:
    def __init__(self, ops: Flat, known: dict[int, Part], region: Region) -> None:
        self.ops, self.known, self.region = ops, known, region
        self.makers = ops.makers

    def part(self, number: int | None) -> Part:
        return Part() if number is None else self.known.get(number, Part())

    def tell(self, what: str, op: Op, axes: Names, **facts: Any) -> None:
        lines = op.at or self.region.lines(op.eqn)
        self.region.tell(what, op.eqn, lines, axes=sorted(axes), **facts)

    def look(self, op: Op) -> None:
        """Record the facts of one operation, from its operands."""
        if op.name in _BENDS or op.name == "max":
            self._bent(op)
        elif op.name == "log":
            self._log(op)
        elif op.name == "dot_general":
            self._check_operands_paired(op)
        elif op.name in ("div", "mul", "sub"):
            self._scaled(op)
            self._waves(op)
        elif op.name in _RUNNING:
            self._running(op)
        elif op.name in ("concatenate", "pad"):
            self._shifted(op)

    def _bent(self, op: Op) -> None:
        """An activation of a term of a sum that is still to be made."""
        if op.name == "max" and any(one is not None and self.ops.shape(one) for one in op.takes[1:]):
            return
        one = self.part(op.takes[0])
        if one.product and not one.loose and self.ops.kind(op.takes[0]) == "f" and not self.region.pmap:
            self.tell("unsummed", op, one.product, name=op.name)

    def _log(self, op: Op) -> None:
        one = self.part(op.takes[0])
        if (
            one.total
            and not one.loose
            and one.maker is not None
            and self._exponential(self.makers[one.maker])
        ):
            self._own(op, one, None)

    def _check_operands_paired(self, op: Op) -> None:
        """Find a product of entries that do not belong together: each operand is split over another axis there."""
        one, two = (self.part(number) for number in op.takes)
        contracted, batch = op.params["dimension_numbers"]
        if self.region.back or "transpose" in str(op.eqn.source_info.name_stack):
            return
        for left, right in (*zip(*contracted, strict=True), *zip(*batch, strict=True)):
            axes = one.dims[left] if left < len(one.dims) else NONE, two.dims[right] if right < len(two.dims) else NONE
            if all(axes) and not axes[0] & axes[1] and not self._came_by_ring(op):
                self.tell("mispaired", op, axes[0], other=sorted(axes[1]), dim=left, other_dim=right)
                return

    def _came_by_ring(self, op: Op) -> bool:
        """Return whether an operand was sent on by `ppermute`, or depends on the device's number."""
        waiting, done = [one for one in op.takes if one is not None], set[int]()
        while waiting and len(done) < 4000:
            made = self.makers.get(waiting.pop())
            if made is None or id(made) in done:
                continue
            done.add(id(made))
            if made.name in ("ppermute", "axis_index"):
                return True
            waiting += [one for one in made.takes if one is not None]
        return False

    def _scaled(self, op: Op) -> None:
        """Find a sharded array that is divided by a sum over its sharded dimension, or from which the sum is
        subtracted.
        """
        pairs = [(op.takes[0], op.takes[1])] if op.name != "mul" else [tuple(op.takes), tuple(op.takes[::-1])]
        for array, by in pairs:
            whole, one = self.part(array), self.part(by)
            axes = one.total & whole.axes - one.axes - whole.total
            if not axes or one.loose or whole.loose or one.maker is None:
                continue
            if op.name == "mul" and not self._bends_on_the_way(by, one.maker):
                continue
            self._own(op, one, array)

    def look_at_single_row(self, op: Op) -> None:
        """Find an array less its own mean, where that is the mean of one row: it leaves zeros."""
        if op.name != "sub" or self.region.back:
            return
        whole, mean = self.part(op.takes[0]), self.part(op.takes[1])
        made = self.makers.get(mean.maker) if mean.maker is not None else None
        axes = mean.total & whole.axes - mean.axes - whole.total
        if made is None or not axes or mean.loose or whole.loose:
            return
        shape = self.ops.shape(made.takes[0])
        if math.prod(shape[at] for at in made.params["axes"]) == 1:
            self.tell("own-row", made, axes)

    def _own(self, op: Op, one: Part, array: int | None) -> None:
        made = self.makers[one.maker] if one.maker is not None else op
        shape = self.ops.shape(made.takes[0])
        softmax = self._exponential(made)
        if self.region.pmap and not (softmax and len(shape) == 2 and self._rows_of(made)):
            return
        # One number for all a device holds is another matter, and the statistics of its own rows may be meant.
        if not self.ops.shape(made.gives[0]) and len(shape) > 1 and not softmax:
            return
        if 0 in made.params["axes"] and not softmax:
            return
        if self.region.back or "transpose" in str(made.eqn.source_info.name_stack):
            return
        # A ring brings every part to every device: what is added up over its rounds is the sum of all.
        if softmax and any(each.name in MOVE and one.total & set(axes_of(each.eqn)) for each in self.ops.ops):
            return
        if not self._added_up(made.gives[0], one.total):
            scores = self._product(made.takes[0]) if softmax else []
            self.tell("own-softmax" if softmax else "own-norm", made, one.total, scores=scores)

    def _rows_of(self, made: Op) -> bool:
        """Return whether a sum goes over the rows of one batch next to as many rows of another, as in a contrastive
        loss.
        """
        dims, shape = self.part(made.takes[0]).dims, self.ops.shape(made.takes[0])
        return len(dims) == 2 and bool(dims[0] & dims[1]) and shape[0] == shape[1]

    def _exponential(self, made: Op) -> bool:
        """Return whether a sum is one of exponentials."""
        number = made.takes[0]
        for _ in range(6):
            op = self.makers.get(number) if number is not None else None
            if op is None:
                return False
            if op.name in ("exp", "exp2"):
                return True
            if op.name not in (LOOP, "convert_element_type", "copy", "select_n", "mul", "pvary", "pcast"):
                return False
            number = op.takes[1 if op.name == "select_n" else 0]
        return False

    def _product(self, number: int | None) -> list[Any]:
        """The line of the product that exponentials are made of."""
        for _ in range(20):
            op = self.makers.get(number) if number is not None else None
            if op is None or op.name == "dot_general":
                return (op.at or self.region.lines(op.eqn))[:1] if op else []
            shape = self.ops.shape(op.gives[0])
            number = next((one for one in op.takes if one is not None and self.ops.shape(one) == shape), None)
        return []

    def _bends_on_the_way(self, number: int | None, end: int) -> bool:
        for _ in range(12):
            op = self.makers.get(number) if number is not None else None
            if op is None or number == end:
                return False
            if op.name in ("rsqrt", "sqrt", "integer_pow", "div", "pow", "exp", "log"):
                return True
            number = next((one for one in op.takes if self.part(one).total), None)
        return False

    def _added_up(self, number: int, axes: Names) -> bool:
        """Return whether a statistic reaches the other devices: by a sum, or as the exponent of a weight. A sum of
        logarithms is no such sum.
        """
        size = max(1, math.prod(self.ops.shape(number)))
        waiting, done = [(number, False)], set[tuple[int, bool]]()
        while waiting and len(done) < 4000:
            at = waiting.pop()
            if at in done:
                continue
            done.add(at)
            one, logged = at
            for op in self.ops.users.get(one, ()):
                if op.name in _COLLECTIVES and axes & set(axes_of(op.eqn)):
                    if not logged or op.name in GATHER | MOVE | {"pmax", "pmin"}:
                        return True
                    continue
                after_log = (logged or op.name == "log") and op.name not in ("exp", "exp2")
                waiting += [(give, after_log) for give in op.gives if math.prod(self.ops.shape(give)) <= size]
        return False

    def _running(self, op: Op) -> None:
        """A running sum that begins anew on each device."""
        one, at = self.part(op.takes[0]), op.params.get("axis", 0)
        axes = one.dims[at] if at < len(one.dims) else NONE
        if (
            not axes
            or one.loose
            or op.takes[0] is None
            or self.ops.kind(op.takes[0]) != "f"
            or self.region.pmap
        ):
            return
        if any(self._carried(each, axes, _CARRIED) for each in (op.takes[0], op.gives[0])):
            return
        if not counts_places(op.gives[0], self.ops):
            self.tell("own-running", op, axes, name=op.name)

    def _carried(self, number: int, axes: Names, past: Names) -> bool:
        """Return whether a smaller piece of a value is sent to the other devices, through operations of some names. A
        sum of one number over devices is a loss.
        """
        size = math.prod(self.ops.shape(number))
        waiting, done = [number], set[int]()
        while waiting and len(done) < 4000:
            one = waiting.pop()
            if one in done:
                continue
            done.add(one)
            for op in self.ops.users.get(one, ()):
                if op.name in _COLLECTIVES and axes & set(axes_of(op.eqn)):
                    if math.prod(self.ops.shape(one)) < size and (
                        self.ops.shape(one) or op.name not in REDUCE
                    ):
                        return True
                    continue
                if op.name in past:
                    waiting += op.gives
        return False

    def _waves(self, op: Op) -> None:
        """Positions that count from 0 on each device, beside what is split."""
        for at, by in ((0, 1), (1, 0)):
            array, one = op.takes[at], self.part(op.takes[by])
            whole = self.part(array)
            if self.region.pmap or not one.waved or one.loose or whole.loose:
                continue
            shape, other = self.ops.shape(op.takes[by]), self.ops.shape(array)
            for dim in one.counted if len(shape) == len(other) == len(whole.dims) else ():
                axes = whole.dims[dim]
                if axes and shape[dim] == other[dim] > 1 and not one.axes & axes:
                    self.tell("own-positions", self._counter(op.takes[by], dim) or op, axes)

    def _counter(self, number: int | None, dim: int) -> Op | None:
        """The operation that counts along a dimension."""
        size = self.ops.shape(number)[dim]
        waiting = [number]
        for _ in range(60):
            op = self.makers.get(waiting.pop(0) or -1) if waiting else None
            if op is None:
                continue
            if op.name == "iota":
                if self.ops.shape(op.gives[0])[op.params["dimension"]] == size:
                    return op
                continue
            waiting += [one for one in op.takes if one is not None and self.part(one).counted]
        return None

    def _shifted(self, op: Op) -> None:
        """A shift by a few rows inside of each part: its first or last rows come from the part itself, or are zeros."""
        array = next((one for one in op.takes if one is not None and self._cut(one)), None)
        cut = self.makers.get(array) if array is not None else None
        if cut is None or cut.takes[0] is None or array is None:
            return
        whole, out, less = self.ops.shape(cut.takes[0]), self.ops.shape(op.gives[0]), self.ops.shape(array)
        changed = [at for at, size in enumerate(whole) if less[at] != size]
        one = self.part(cut.takes[0])
        if len(changed) != 1 or out != whole or one.loose or changed[0] == 0 or self.region.pmap:
            return
        dim = changed[0]
        axes = one.dims[dim] if dim < len(one.dims) else NONE
        # Halves that change places are those of a head.
        if not axes or whole[dim] < 2 * _LEAST or whole[dim] - less[dim] > whole[dim] // _LEAST:
            return
        others = [self.part(each) for each in op.takes if each is not None]
        if any(each.loose for each in others) or self._carried(cut.takes[0], axes, _LAID):
            return
        self.tell("own-shift", op, axes)

    def _cut(self, number: int) -> bool:
        op = self.makers.get(number)
        return op is not None and op.name in ("slice", "split") and len(self.ops.shape(number)) > 1

    def results(self) -> None:
        """Places in a device's own part that are given out as if they counted from the start of the whole."""
        for op in self.ops.ops:
            number = op.takes[0] if op.takes else None
            one = self.part(number)
            reduced = frozenset(axes_of(op.eqn)) if op.name in REDUCE else NONE
            if one.local & reduced and not one.loose and number is not None:
                self._place(number, one.local & reduced)
            elif op.name in ("eq", "ne"):
                pairs = ((op.takes[0], op.takes[1]), (op.takes[1], op.takes[0]))
                for mine, other in pairs:
                    place, against = self.part(mine), self.part(other)
                    alike = (
                        not against.local
                        and not against.loose
                        and self.ops.shape(other) == self.ops.shape(mine)
                    )
                    if mine is not None and place.local and not place.loose and alike and not against.counted:
                        if not place.local & against.axes and self.ops.shape(mine):
                            self._place(mine, place.local)
        for number in self.ops.results:
            one = self.part(number)
            if number is not None and one.local and not one.loose and not one.local & one.axes:
                self._place(number, one.local)

    def _place(self, number: int, axes: Names) -> None:
        """Tell it at the operation that found the place, unless it was moved on since."""
        waiting, done = [number], set()
        while waiting:
            one = waiting.pop()
            op = self.makers.get(one)
            if op is None or one in done:
                continue
            done.add(one)
            if op.name in ("argmax", "argmin", "top_k"):
                if self.region.pmap and not self._rows_of(op):
                    return
                self.tell("own-place", op, axes, name=op.name)
                return
            if op.name in _PLACES and sum(self.ops.shape(each) != () for each in op.takes) > 1:
                return
            waiting += [each for each in op.takes if each is not None and self.part(each).local]
