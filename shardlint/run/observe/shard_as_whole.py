"""Detection of operations that treat a device's shard as the whole dimension: a softmax, a norm, an index, a running
sum, positions, a shift. Also functions of a partial sum that is not yet reduced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .buffer_slots import check_slots, is_counting_positions
from .device_means import check_averages
from .early_gathers import check_gathered_first, check_loop_gathers
from .event_sink import silence_errors
from .flat_operations import LOOP, FlatOperation, FlatRegion, flatten_body
from .sharded_dimensions import Part, parts_after_operation
from .values import GATHER, MOVE, NONE, REDUCE, SCATTER, Names, Region, axes_of

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


@silence_errors
def check_local_parts(body: Any, dimensions: Sequence[Sequence[Names]], region: Region) -> None:
    """Tell what is seen in a region."""
    manual = frozenset(region.sizes)
    ops = flatten_body(body)
    known: dict[int, Part] = {}
    for number, dims in zip(ops.arguments, dimensions, strict=False):
        shape = ops.shape_of_value(number)
        split = [axes & manual for axes in dims[: len(shape)]]
        if (
            region.pmap
            and shape[:1] == (1,)
            and (len(shape) > 2 or (len(shape) == 2 and ops.type_letter(number) != "f"))
        ):
            # What pmap gives to each device is rows of a batch, as a rule: the first dimension that is left. A vector
            # of floats may be a bias.
            split[1] |= split[0]
        known[number] = Part(
            tuple(axes if size > 1 else NONE for axes, size in zip(split, shape, strict=True))
        )
    seen = _Seen(ops, known, region)
    for op in ops.ops:
        seen.inspect_operation(op)
        known.update(zip(op.gives, parts_after_operation(op, ops, known, region.sizes), strict=False))
    seen.inspect_results()
    if not region.pmap:
        _look_at_single_rows(ops, dimensions, region)
    check_averages(ops, known, region)
    check_slots(ops, known, region)
    check_gathered_first(ops, region)
    check_loop_gathers(body, region)


def _look_at_single_rows(ops: FlatRegion, dimensions: Sequence[Sequence[Names]], region: Region) -> None:
    """Find means over dimensions of which each device has a single row."""
    known = {
        number: Part(
            tuple(
                axes if size == 1 else NONE
                for axes, size in zip(dims, ops.shape_of_value(number), strict=False)
            )
        )
        for number, dims in zip(ops.arguments, dimensions, strict=False)
    }
    if not any(one.splitting_axes for one in known.values()):
        return
    seen = _Seen(ops, known, region)
    for op in ops.ops:
        seen.look_at_single_row(op)
        known.update(zip(op.gives, parts_after_operation(op, ops, known, region.sizes), strict=False))


class _Seen:
    def __init__(self, ops: FlatRegion, known: dict[int, Part], region: Region) -> None:
        self.ops, self.known, self.region = ops, known, region
        self.makers = ops.operations_by_value

    def part_of_value(self, number: int | None) -> Part:
        return Part() if number is None else self.known.get(number, Part())

    def report_operation(self, what: str, op: FlatOperation, axes: Names, **facts: Any) -> None:
        lines = op.at or self.region.operation_lines(op.eqn)
        self.region.note_observation(what, op.eqn, lines, axes=sorted(axes), **facts)

    def inspect_operation(self, op: FlatOperation) -> None:
        """Record the facts of one operation, from its operands."""
        if op.name in _BENDS or op.name == "max":
            self._inspect_activation(op)
        elif op.name == "log":
            self._inspect_log(op)
        elif op.name == "dot_general":
            self._check_operands_paired(op)
        elif op.name in ("div", "mul", "sub"):
            self._inspect_normalization(op)
            self._inspect_positions(op)
        elif op.name in _RUNNING:
            self._inspect_running_sum(op)
        elif op.name in ("concatenate", "pad"):
            self._inspect_shift(op)

    def _inspect_activation(self, op: FlatOperation) -> None:
        """An activation of a term of a sum that is still to be made."""
        if op.name == "max" and any(one is not None and self.ops.shape_of_value(one) for one in op.takes[1:]):
            return
        one = self.part_of_value(op.takes[0])
        if one.product and not one.loose and self.ops.type_letter(op.takes[0]) == "f" and not self.region.pmap:
            self.report_operation("unsummed", op, one.product, name=op.name)

    def _inspect_log(self, op: FlatOperation) -> None:
        one = self.part_of_value(op.takes[0])
        if (
            one.total
            and not one.loose
            and one.maker is not None
            and self._is_sum_of_exponentials(self.makers[one.maker])
        ):
            self._report_local_sum(op, one, None)

    def _check_operands_paired(self, op: FlatOperation) -> None:
        """Find a product of entries that do not belong together: each operand is split over another axis there."""
        one, two = (self.part_of_value(number) for number in op.takes)
        contracted, batch = op.params["dimension_numbers"]
        if self.region.back or "transpose" in str(op.eqn.source_info.name_stack):
            return
        for left, right in (*zip(*contracted, strict=True), *zip(*batch, strict=True)):
            axes = one.dims[left] if left < len(one.dims) else NONE, two.dims[right] if right < len(two.dims) else NONE
            if all(axes) and not axes[0] & axes[1] and not self._came_through_ring(op):
                self.report_operation("mispaired", op, axes[0], other=sorted(axes[1]), dim=left, other_dim=right)
                return

    def _came_through_ring(self, op: FlatOperation) -> bool:
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

    def _inspect_normalization(self, op: FlatOperation) -> None:
        """Find a sharded array that is divided by a sum over its sharded dimension, or from which the sum is
        subtracted.
        """
        pairs = [(op.takes[0], op.takes[1])] if op.name != "mul" else [tuple(op.takes), tuple(op.takes[::-1])]
        for array, by in pairs:
            whole, one = self.part_of_value(array), self.part_of_value(by)
            axes = one.total & whole.splitting_axes - one.splitting_axes - whole.total
            if not axes or one.loose or whole.loose or one.maker is None:
                continue
            if op.name == "mul" and not self._bends_on_the_way(by, one.maker):
                continue
            self._report_local_sum(op, one, array)

    def look_at_single_row(self, op: FlatOperation) -> None:
        """Find an array less its own mean, where that is the mean of one row: it leaves zeros."""
        if op.name != "sub" or self.region.back:
            return
        whole, mean = self.part_of_value(op.takes[0]), self.part_of_value(op.takes[1])
        made = self.makers.get(mean.maker) if mean.maker is not None else None
        axes = mean.total & whole.splitting_axes - mean.splitting_axes - whole.total
        if made is None or not axes or mean.loose or whole.loose:
            return
        shape = self.ops.shape_of_value(made.takes[0])
        if math.prod(shape[at] for at in made.params["axes"]) == 1:
            self.report_operation("own-row", made, axes)

    def _report_local_sum(self, op: FlatOperation, part: Part, array: int | None) -> None:
        made = self.makers[part.maker] if part.maker is not None else op
        shape = self.ops.shape_of_value(made.takes[0])
        softmax = self._is_sum_of_exponentials(made)
        if self.region.pmap and not (softmax and len(shape) == 2 and self._is_sum_over_batch_rows(made)):
            return
        # One number for all a device holds is another matter, and the statistics of its own rows may be meant.
        if not self.ops.shape_of_value(made.gives[0]) and len(shape) > 1 and not softmax:
            return
        if 0 in made.params["axes"] and not softmax:
            return
        if self.region.back or "transpose" in str(made.eqn.source_info.name_stack):
            return
        # A ring brings every part to every device: what is added up over its rounds is the sum of all.
        if softmax and any(each.name in MOVE and part.total & set(axes_of(each.eqn)) for each in self.ops.ops):
            return
        if not self._is_reduced_over_devices(made.gives[0], part.total):
            scores = self._line_of_product(made.takes[0]) if softmax else []
            self.report_operation("own-softmax" if softmax else "own-norm", made, part.total, scores=scores)

    def _is_sum_over_batch_rows(self, flat_operation: FlatOperation) -> bool:
        """Return whether a sum goes over the rows of one batch next to as many rows of another, as in a contrastive
        loss.
        """
        dims, shape = self.part_of_value(flat_operation.takes[0]).dims, self.ops.shape_of_value(flat_operation.takes[0])
        return len(dims) == 2 and bool(dims[0] & dims[1]) and shape[0] == shape[1]

    def _is_sum_of_exponentials(self, flat_operation: FlatOperation) -> bool:
        """Return whether a sum is one of exponentials."""
        number = flat_operation.takes[0]
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

    def _line_of_product(self, number: int | None) -> list[Any]:
        """The line of the product that exponentials are made of."""
        for _ in range(20):
            op = self.makers.get(number) if number is not None else None
            if op is None or op.name == "dot_general":
                return (op.at or self.region.operation_lines(op.eqn))[:1] if op else []
            shape = self.ops.shape_of_value(op.gives[0])
            number = next((one for one in op.takes if one is not None and self.ops.shape_of_value(one) == shape), None)
        return []

    def _bends_on_the_way(self, number: int | None, end: int) -> bool:
        for _ in range(12):
            op = self.makers.get(number) if number is not None else None
            if op is None or number == end:
                return False
            if op.name in ("rsqrt", "sqrt", "integer_pow", "div", "pow", "exp", "log"):
                return True
            number = next((one for one in op.takes if self.part_of_value(one).total), None)
        return False

    def _is_reduced_over_devices(self, number: int, axes: Names) -> bool:
        """Return whether a statistic reaches the other devices: by a sum, or as the exponent of a weight. A sum of
        logarithms is no such sum.
        """
        size = max(1, math.prod(self.ops.shape_of_value(number)))
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
                waiting += [(give, after_log) for give in op.gives if math.prod(self.ops.shape_of_value(give)) <= size]
        return False

    def _inspect_running_sum(self, op: FlatOperation) -> None:
        """A running sum that begins anew on each device."""
        one, at = self.part_of_value(op.takes[0]), op.params.get("axis", 0)
        axes = one.dims[at] if at < len(one.dims) else NONE
        if (
            not axes
            or one.loose
            or op.takes[0] is None
            or self.ops.type_letter(op.takes[0]) != "f"
            or self.region.pmap
        ):
            return
        if any(self._is_sent_on(each, axes, _CARRIED) for each in (op.takes[0], op.gives[0])):
            return
        if not is_counting_positions(op.gives[0], self.ops):
            self.report_operation("own-running", op, axes, name=op.name)

    def _is_sent_on(self, number: int, axes: Names, past: Names) -> bool:
        """Return whether a smaller piece of a value is sent to the other devices, through operations of some names. A
        sum of one number over devices is a loss.
        """
        size = math.prod(self.ops.shape_of_value(number))
        waiting, done = [number], set[int]()
        while waiting and len(done) < 4000:
            one = waiting.pop()
            if one in done:
                continue
            done.add(one)
            for op in self.ops.users.get(one, ()):
                if op.name in _COLLECTIVES and axes & set(axes_of(op.eqn)):
                    if math.prod(self.ops.shape_of_value(one)) < size and (
                        self.ops.shape_of_value(one) or op.name not in REDUCE
                    ):
                        return True
                    continue
                if op.name in past:
                    waiting += op.gives
        return False

    def _inspect_positions(self, op: FlatOperation) -> None:
        """Positions that count from 0 on each device, beside what is split."""
        for at, by in ((0, 1), (1, 0)):
            array, one = op.takes[at], self.part_of_value(op.takes[by])
            whole = self.part_of_value(array)
            if self.region.pmap or not one.waved or one.loose or whole.loose:
                continue
            shape, other = self.ops.shape_of_value(op.takes[by]), self.ops.shape_of_value(array)
            for dim in one.counted if len(shape) == len(other) == len(whole.dims) else ():
                axes = whole.dims[dim]
                if axes and shape[dim] == other[dim] > 1 and not one.splitting_axes & axes:
                    self.report_operation("own-positions", self._find_counter(op.takes[by], dim) or op, axes)

    def _find_counter(self, number: int | None, dim: int) -> FlatOperation | None:
        """The operation that counts along a dimension."""
        size = self.ops.shape_of_value(number)[dim]
        waiting = [number]
        for _ in range(60):
            op = self.makers.get(waiting.pop(0) or -1) if waiting else None
            if op is None:
                continue
            if op.name == "iota":
                if self.ops.shape_of_value(op.gives[0])[op.params["dimension"]] == size:
                    return op
                continue
            waiting += [one for one in op.takes if one is not None and self.part_of_value(one).counted]
        return None

    def _inspect_shift(self, op: FlatOperation) -> None:
        """A shift by a few rows inside of each part: its first or last rows come from the part itself, or are zeros."""
        array = next((one for one in op.takes if one is not None and self._is_cut(one)), None)
        cut = self.makers.get(array) if array is not None else None
        if cut is None or cut.takes[0] is None or array is None:
            return
        whole, out, less = (
            self.ops.shape_of_value(cut.takes[0]),
            self.ops.shape_of_value(op.gives[0]),
            self.ops.shape_of_value(array),
        )
        changed = [at for at, size in enumerate(whole) if less[at] != size]
        one = self.part_of_value(cut.takes[0])
        if len(changed) != 1 or out != whole or one.loose or changed[0] == 0 or self.region.pmap:
            return
        dim = changed[0]
        axes = one.dims[dim] if dim < len(one.dims) else NONE
        # Halves that change places are those of a head.
        if not axes or whole[dim] < 2 * _LEAST or whole[dim] - less[dim] > whole[dim] // _LEAST:
            return
        others = [self.part_of_value(each) for each in op.takes if each is not None]
        if any(each.loose for each in others) or self._is_sent_on(cut.takes[0], axes, _LAID):
            return
        self.report_operation("own-shift", op, axes)

    def _is_cut(self, number: int) -> bool:
        op = self.makers.get(number)
        return op is not None and op.name in ("slice", "split") and len(self.ops.shape_of_value(number)) > 1

    def inspect_results(self) -> None:
        """Places in a device's own part that are given out as if they counted from the start of the whole."""
        for op in self.ops.ops:
            number = op.takes[0] if op.takes else None
            one = self.part_of_value(number)
            reduced = frozenset(axes_of(op.eqn)) if op.name in REDUCE else NONE
            if one.local & reduced and not one.loose and number is not None:
                self._report_place(number, one.local & reduced)
            elif op.name in ("eq", "ne"):
                pairs = ((op.takes[0], op.takes[1]), (op.takes[1], op.takes[0]))
                for mine, other in pairs:
                    place, against = self.part_of_value(mine), self.part_of_value(other)
                    alike = (
                        not against.local
                        and not against.loose
                        and self.ops.shape_of_value(other) == self.ops.shape_of_value(mine)
                    )
                    if mine is not None and place.local and not place.loose and alike and not against.counted:
                        if not place.local & against.splitting_axes and self.ops.shape_of_value(mine):
                            self._report_place(mine, place.local)
        for number in self.ops.results:
            one = self.part_of_value(number)
            if number is not None and one.local and not one.loose and not one.local & one.splitting_axes:
                self._report_place(number, one.local)

    def _report_place(self, number: int, axes: Names) -> None:
        """Tell it at the operation that found the place, unless it was moved on since."""
        waiting, done = [number], set()
        while waiting:
            one = waiting.pop()
            op = self.makers.get(one)
            if op is None or one in done:
                continue
            done.add(one)
            if op.name in ("argmax", "argmin", "top_k"):
                if self.region.pmap and not self._is_sum_over_batch_rows(op):
                    return
                self.report_operation("own-place", op, axes, name=op.name)
                return
            if op.name in _PLACES and sum(self.ops.shape_of_value(each) != () for each in op.takes) > 1:
                return
            waiting += [each for each in op.takes if each is not None and self.part_of_value(each).local]
