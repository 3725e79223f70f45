"""Sums, gathers and moves over an axis: what they make of a value, and those that cannot be meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .partial_results import check_quotients
from .values import (
    GATHER,
    MOVE,
    REDUCE,
    ROUNDS,
    SCATTER,
    TYPES,
    Names,
    Region,
    Value,
    axes_of,
    constant_divisor,
)


def evaluate_collective(eqn: Any, name: str, taken: list[Value], region: Region, consumers: Any) -> list[Value]:
    """The values a collective gives; what cannot be meant of it is told."""
    axes = frozenset(axes_of(eqn))
    region.collectives += 1
    taken = [replace(value, random=(), drawn=(), norm=(), scaled=()) for value in taken]
    if name == "ppermute":
        _check_left_out_devices(eqn, region)
    if eqn.params.get("axis_index_groups") is not None or name in MOVE:
        return [replace(value, loose=True) for value in taken]
    results = []
    for at, value in enumerate(taken):
        atom, out = eqn.invars[at], eqn.outvars[at] if at < len(eqn.outvars) else None
        over = value.over | axes if name in SCATTER else value.over - axes
        summed = tuple(map(tuple, region.operation_lines(eqn)[:1])) if name in REDUCE else value.summed
        results.append(replace(value, over=over, summed=summed))
        if name in GATHER:
            _check_gather(eqn, region, consumers)
        elif name not in ("pmax", "pmin") and not hasattr(atom, "val"):
            _check_sum(eqn, atom, value, axes, _is_divided_after(consumers.get(out, ()), axes, region), region)
    return results


def _check_left_out_devices(eqn: Any, region: Region) -> None:
    """A shift whose pairs leave some devices out altogether: these get zeros, and nobody gets what is theirs.

    In a ring that a loop goes around, one that does not come around fills with zeros.
    """
    axes = [axis for axis in axes_of(eqn) if axis in region.sizes]
    pairs = [tuple(map(int, pair)) for pair in eqn.params.get("perm", ())]
    size = _size_of_axes(axes, region)
    named = {device for pair in pairs for device in pair}
    if not axes or size < 2 or not pairs:
        return
    swapped = len(named) >= size - 2 and set(pairs) == {(to, of) for of, to in pairs}
    if swapped and len(named) < size:
        return  # neighbours that change places in turns, as in a sorting network: the two at the ends wait
    if missing := [device for device in range(size) if device not in named]:
        region.note_observation("left-out", eqn, axes=axes, sizes=size, devices=missing)
    elif len({to for _, to in pairs}) < size and region.is_ring(eqn):
        empty = sorted(set(range(size)) - {to for _, to in pairs})
        region.note_observation("open-ring", eqn, axes=axes, sizes=size, devices=empty)


def _check_sum(eqn: Any, atom: Any, value: Value, axes: Names, mean: bool, region: Region) -> None:
    """A sum of what is equal along an axis, or of a sum with something equal in it."""
    if mean and axes <= value.over and not value.loose:
        _check_shared_mean(eqn, atom, axes, region)
    if axes <= value.over and not value.loose:
        check_quotients(eqn, atom, axes, mean, region)
    back = region.back or "transpose" in str(eqn.source_info.name_stack)
    equal = sorted(axis for axis in axes - value.over if region.sizes.get(axis, 1) > 1)
    aval = getattr(atom, "aval", None)
    if equal and value.given and not value.loose:
        before = _source_operation(atom, region, scaled=True)
        summed = before is not None and before.primitive.name in REDUCE and set(axes_of(before)) & set(equal)
        if mean and summed and "transpose" in str(before.source_info.name_stack):
            if not value.divided & axes:
                region.note_observation("mean-of-sum", eqn, axes=equal, sizes=_size_of_axes(equal, region))
        elif not mean and not back and (summed or not value.divided & axes):
            region.note_observation(
                "sum-of-equal", eqn, axes=equal, sizes=_size_of_axes(equal, region), again=bool(summed)
            )
    elif not mean and not back and not value.divided & axes:
        made = _source_operation(atom, region)
        if made is not None and made.primitive.name == "add" and getattr(aval, "shape", ()):
            _check_bias(eqn, made, axes, region)


def _check_shared_mean(eqn: Any, atom: Any, axes: Names, region: Region) -> None:
    """A mean over devices of a sum that was divided by the count of all their rows: it is divided twice."""
    if hasattr(atom, "val"):
        return
    divided = _source_operation(atom, region)
    if divided is None or divided.primitive.name not in ("div", "mul"):
        return
    count = constant_divisor(divided, region)
    made = _source_operation(divided.invars[0], region)
    if made is None or made.primitive.name != "reduce_sum" or not count:
        return
    rows = made.invars[0].aval.size // max(1, made.outvars[0].aval.size)
    size = _size_of_axes(sorted(axes), region)
    if rows > 1 and abs(count - rows * size) < 1e-6 * count:
        region.note_observation("mean-of-share", eqn, axes=sorted(axes), sizes=size, rows=rows)


def _check_bias(eqn: Any, made: Any, axes: Names, region: Region) -> None:
    if any(hasattr(atom, "val") for atom in made.invars):
        return
    first, second = (region.known.get(atom, Value()) for atom in made.invars)
    for one, other in ((first, second), (second, first)):
        if (
            one.given
            and not one.loose
            and not (one.over & axes)
            and other.over & axes
            and not one.divided & axes
        ):
            region.note_observation("bias-summed", made, axes=sorted(axes), sizes=_size_of_axes(sorted(axes), region))


def _size_of_axes(axes: Sequence[str], region: Region) -> int:
    total = 1
    for axis in axes:
        total *= region.sizes.get(axis, 1)
    return total


def _source_operation(atom: Any, region: Region, scaled: bool = False) -> Any:
    """The operation a value comes from, past what only changes its type or shape, or also its scale."""
    for _ in range(ROUNDS):
        eqn = None if hasattr(atom, "val") else region.maker.get(atom)
        if eqn is None:
            return None
        given = [each for each in eqn.invars if not hasattr(each, "val")]
        past = eqn.primitive.name in TYPES or (scaled and eqn.primitive.name in ("mul", "div", "neg"))
        if not past or len(given) != 1:
            return eqn
        atom = given[0]
    return None


def check_added_slices(eqn: Any, region: Region) -> None:
    """Each device's own slice of an argument, changed by the sum of all the slices."""
    for one, other in (eqn.invars, eqn.invars[::-1]):
        if hasattr(one, "val") or hasattr(other, "val") or _root_variable(one, region) not in region.arguments:
            continue
        shape = getattr(eqn.outvars[0].aval, "shape", ())
        summed = _source_operation(other, region, scaled=True)
        if not shape or summed is None or summed.primitive.name not in REDUCE - {"pmax", "pmin"}:
            continue
        mixed = sorted(set(axes_of(summed)) & region.known.get(one, Value()).over)
        taken = region.known.get(summed.invars[0], Value())
        if mixed and set(mixed) <= taken.over and getattr(other.aval, "shape", None) == shape:
            region.note_observation("all-slices", summed, axes=mixed)


def check_row_lookup(eqn: Any, values: Sequence[Value], region: Region) -> None:
    """A lookup by numbers that are the same on all devices, in a table of which each has other rows."""
    split = region.dimensions.get(_root_variable(eqn.invars[0], region))
    numbers = values[1]
    if not split or not numbers.given or numbers.loose or numbers.random or hasattr(eqn.invars[1], "val"):
        return
    shape = eqn.invars[0].aval.shape
    for at in eqn.params["dimension_numbers"].start_index_map:
        axes = sorted((split[at] & frozenset(region.sizes)) - numbers.over) if at < len(split) else []
        if axes and shape[at] > 1 and eqn.params["slice_sizes"][at] == 1:
            region.note_observation("local-index-as-global", eqn, axes=axes)


def check_first_rows(eqn: Any, value: Value, region: Region, consumers: Any) -> None:
    """The first rows of an argument that every device has whole, as many as each has of another that is split."""
    root = _root_variable(eqn.invars[0], region)
    own = region.dimensions.get(root)
    if not own or not value.given or value.loose or len(consumers.get(root, ())) > 1 or eqn.params.get("strides"):
        return
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    cut = [at for at in range(len(shape)) if shape[at] != out[at]]
    if len(cut) != 1 or eqn.params["start_indices"][cut[0]] or len(own) != len(shape):
        return
    for other, dimensions in region.dimensions.items():
        axes = sorted(dimensions[cut[0]] & frozenset(region.sizes)) if cut[0] < len(dimensions) else []
        part = other.aval.shape[cut[0]] if axes else 0
        whole = part * _size_of_axes(axes, region)
        if part > 1 and part == out[cut[0]] and whole == shape[cut[0]] and not set(axes) & value.over:
            region.note_observation("first-rows", eqn, axes=axes, rows=part, shape=list(shape))
            return


def _root_variable(atom: Any, region: Region) -> Any:
    """The variable a value is, past what only changes its type or shape."""
    for _ in range(ROUNDS):
        eqn = region.maker.get(atom)
        if eqn is None or eqn.primitive.name not in TYPES | {"squeeze"} or hasattr(eqn.invars[0], "val"):
            return atom
        atom = eqn.invars[0]
    return atom


def _is_divided_after(users: Sequence[Any], axes: Names, region: Region) -> bool:
    """Return whether a sum is divided by the number of those it adds up: a mean."""
    size = _size_of_axes(sorted(axes), region)
    for eqn in users:
        if eqn.primitive.name in ("div", "mul") and abs(constant_divisor(eqn, region) - size) < 1e-6 * size:
            return True
    return False


def _check_gather(eqn: Any, region: Region, consumers: Any) -> None:
    if eqn.params.get("tiled") is False and eqn.params.get("all_gather_dimension", 0) > 0:
        if not consumers.get(eqn.outvars[0]):
            region.note_observation("untiled", eqn, axes=sorted(axes_of(eqn)))
