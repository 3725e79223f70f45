"""Means over devices of what each has made of a sum of its own rows by more than a scale: a root, an exponential, a
logarithm, a power, a product with another such sum, a variance, a quantile. That of the sum over all rows is another.
"""

from __future__ import annotations

import math
from typing import Any

from .event_sink import silence_errors
from .flat_operations import LOOP, FlatOperation, FlatRegion
from .sharded_dimensions import Part
from .values import REDUCE, TYPES, Names, Region, axes_of

_BENDS = {
    "exp": "the exponential", "exp2": "the exponential", "log": "the logarithm", "sqrt": "the root",
    "rsqrt": "the inverse of the root", "integer_pow": "a power", "square": "the square", "pow": "a power",
    "div": "a quotient", "mul": "a product",
}  # fmt: skip
_PICKS = frozenset(("gather", "dynamic_slice", "slice", "squeeze"))
_LINEAR = TYPES | {LOOP, "neg", "add", "sub", "add_any", "squeeze", "stop_gradient", "select_n"}
_SCALES = frozenset(("mul", "div"))
_MOST = 60


@silence_errors
def check_averages(ops: FlatRegion, known: dict[int, Part], region: Region) -> None:
    """Tell what is seen in a region."""
    if region.back:
        return
    # What pmap is given may be copies, as state is.
    results = {ops.shape_of_value(one) for one in ops.results}
    batch = {one for one in ops.arguments if not region.pmap or ops.shape_of_value(one) not in results}
    for op in ops.ops:
        axes = frozenset(axes_of(op.eqn)) & frozenset(region.sizes) if op.name in REDUCE else frozenset()
        size = math.prod(region.sizes[axis] for axis in axes)
        if not axes or op.name in ("pmax", "pmin") or "transpose" in str(op.eqn.source_info.name_stack):
            continue
        for number, give in zip(op.takes, op.gives, strict=False):
            if number is not None and _is_divided_by_devices(give, size, ops) and ops.values_behind(number) & batch:
                _check_averaged_terms(op, number, axes, ops, known, region)


def _is_divided_by_devices(number: int, size: int, ops: FlatRegion) -> bool:
    """Return whether a sum is divided by the number of devices, which makes it a mean."""
    for op in ops.users.get(number, ()):
        for atom in op.eqn.invars if op.name in _SCALES else ():
            value = getattr(atom, "val", None)
            if value is not None and getattr(value, "size", 1) == 1 and float(value):
                if abs((float(value) if op.name == "div" else 1 / float(value)) - size) < 1e-6 * size:
                    return True
    return False


def _check_averaged_terms(
    op: FlatOperation, number: int, axes: Names, ops: FlatRegion, known: dict[int, Part], region: Region
) -> None:
    """Look at the terms that a mean is taken of."""
    waiting, done = [number], set[int]()
    while waiting and len(done) < _MOST:
        one = waiting.pop()
        made = ops.operations_by_value.get(one)
        if made is None or one in done or "transpose" in str(made.eqn.source_info.name_stack):
            continue
        done.add(one)
        own = [each for each in made.takes if each is not None and _is_local_sum(each, axes, ops, known)]
        scaled = made.name in _SCALES and len(own) < 2 and (made.name == "mul" or made.takes[1] not in own)
        if made.name in _LINEAR or scaled:
            waiting += [each for each in made.takes if each is not None]
        elif made.name == "reduce_sum":
            if _is_local_variance(made, axes, ops, known):
                _report_average("own-variance", op, made, axes, region, name="the variance")
                return
            # What comes of one number for each of several things, as experts or classes, is added up.
            waiting += [
                each
                for each in made.takes
                if each is not None and not known.get(each, Part()).splitting_axes & axes
            ]
        elif (
            made.name == "sqrt"
            and (inside := _find_sum(made.takes[0], ops))
            and _is_local_variance(inside, axes, ops, known)
        ):
            _report_average("own-variance", op, inside, axes, region, name="the standard deviation")
            return
        elif made.name in _BENDS and own and not (made.name in _SCALES and len(set(own)) < len(own)):
            if made.name == "div" and not ops.shape_of_value(one) and made is _operation_beneath(number, ops) and all(
                each in own for each in made.takes
            ):
                continue  # `quotients` looks at these
            _report_average("own-bent", op, made, axes, region, name=_BENDS[made.name])
            return
        elif made.name in _PICKS and (ranked := _find_local_sort(made, axes, ops, known)):
            _report_average("own-rank", op, ranked, axes, region)
            return


def _is_local_sum(number: int | None, axes: Names, ops: FlatRegion, known: dict[int, Part]) -> bool:
    """Return whether a value is made only of a sum over a device's own rows."""
    part = known.get(number, Part()) if number is not None else Part()
    if not part.total & axes or part.splitting_axes & axes or part.loose or part.product or number is None:
        return False
    if ops.type_letter(number) != "f":
        return False
    made = ops.operations_by_value.get(part.maker) if part.maker is not None else None
    return made is not None and "transpose" not in str(made.eqn.source_info.name_stack)


def _find_sum(number: int | None, ops: FlatRegion) -> FlatOperation | None:
    """The sum that a value is, past a scale or another type."""
    for _ in range(8):
        made = ops.operations_by_value.get(number) if number is not None else None
        if made is None or made.name == "reduce_sum":
            return made
        if made.name not in TYPES | _SCALES | {LOOP, "select_n"}:
            return None
        number = next((one for one in reversed(made.takes) if one is not None and ops.type_letter(one) == "f"), None)
    return None


def _is_local_variance(flat_operation: FlatOperation, axes: Names, ops: FlatRegion, known: dict[int, Part]) -> bool:
    """Return whether a sum is that of squared deviations from a local mean, which is averaged over the devices too."""
    square = _operation_beneath(flat_operation.takes[0], ops)
    if square is None or not (
        square.name == "square" or (square.name == "integer_pow" and square.params.get("y") == 2)
        or (square.name == "mul" and square.takes[0] == square.takes[1])
    ):  # fmt: skip
        return False
    less = _operation_beneath(square.takes[0], ops)
    if less is None or less.name != "sub":
        return False
    array, mean = less.takes
    middle = known.get(mean, Part()) if mean is not None else Part()
    if array is None or middle.maker is None or middle.loose or not middle.total & axes or middle.splitting_axes & axes:
        return False
    summed = ops.operations_by_value[middle.maker].takes[0]
    if not _is_same_value(summed, array, ops):
        return False
    return any(_is_same_value(summed, each, ops) for each in _averaged_sums(axes, ops))


def _averaged_sums(axes: Names, ops: FlatRegion) -> list[int]:
    """Return the per-device sums that are then summed over devices, with only a scale between."""
    found = []
    for op in ops.ops:
        if op.name in REDUCE - {"pmax", "pmin"} and set(axes_of(op.eqn)) & axes:
            for one in op.takes:
                made = _find_sum(one, ops)
                if made is not None and made.takes[0] is not None:
                    found.append(made.takes[0])
    return found


def _value_beneath(number: int | None, ops: FlatRegion) -> tuple[int | None, FlatOperation | None]:
    """A value past what only hands it on, and the operation that makes it."""
    for _ in range(8):
        made = ops.operations_by_value.get(number) if number is not None else None
        if made is None or made.name not in TYPES | {LOOP}:
            return number, made
        number = made.takes[0]
    return number, None


def _operation_beneath(number: int | None, ops: FlatRegion) -> FlatOperation | None:
    """The operation that gives a value, past what only hands it on."""
    return _value_beneath(number, ops)[1]


def _is_same_value(one: int | None, other: int | None, ops: FlatRegion) -> bool:
    """Return whether two values are equal except for their types."""
    first, second = (_value_beneath(number, ops)[0] for number in (one, other))
    return first is not None and first == second


def _find_local_sort(
    flat_operation: FlatOperation, axes: Names, ops: FlatRegion, known: dict[int, Part]
) -> FlatOperation | None:
    """The sort of a device's own rows of which one value was picked, as a quantile is."""
    number: int | None = flat_operation.gives[0]
    if math.prod(ops.shape_of_value(number)) > 1:
        return None
    for _ in range(12):
        op = ops.operations_by_value.get(number) if number is not None else None
        if op is None:
            return None
        if op.name == "sort":
            dim = op.params.get("dimension", -1)
            part = known.get(op.takes[0], Part()) if op.takes[0] is not None else Part()
            split = part.dims[dim] if part.dims else frozenset()
            return op if op.gives[0] == number and split & axes and not part.loose else None
        if op.name not in _PICKS | TYPES | {LOOP, "reshape"}:
            return None
        number = op.takes[0]
    return None


def _report_average(
    what: str, op: FlatOperation, flat_operation: FlatOperation, axes: Names, region: Region, **facts: Any
) -> None:
    """At the line that makes more of a sum: that of the mean may be another one."""
    lines, mean = ((one.at or region.operation_lines(one.eqn))[:4] for one in (flat_operation, op))
    met = mean[:1] if mean[:1] != lines[:1] else []
    region.note_observation(what, flat_operation.eqn, lines, axes=sorted(axes), met=met, **facts)
