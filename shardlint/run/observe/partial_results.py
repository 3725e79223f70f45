"""Detection of per-device results that are used as global ones: quotients of sums, norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .values import ROUNDS, TYPES, Names, Region, Value

_SMALL = 16
_KEEPS = frozenset(("max", "min", "add", "clamp", "select_n", "neg", "mul", "div"))


def check_quotients(eqn: Any, atom: Any, axes: Names, mean: bool, region: Region) -> None:
    """A mean or sum over devices of quotients, each of a device's own two sums: that of the sums is another number."""
    divided = _making_operation(atom, region)
    if divided is None or divided.primitive.name != "div" or getattr(divided.outvars[0].aval, "shape", ()):
        return
    top, bottom = (_find_total_sum(each, region) for each in divided.invars)
    if top is None or bottom is None:
        return
    # Where jax counts the elements itself, or a count comes in whole, all devices divide by the same.
    value = region.known.get(bottom.outvars[0], Value())
    if value.given and not value.loose and not value.random and value.over & axes:
        what = "mean-of-quotients" if mean else "sum-of-quotients"
        region.note_observation(what, eqn, axes=sorted(value.over & axes), divided=region.operation_lines(divided)[:1])


def _find_total_sum(atom: Any, region: Region) -> Any:
    """The sum of all of an array that a value is, past a least size for it, a scale or a change of its type."""
    for _ in range(ROUNDS):
        eqn = _making_operation(atom, region)
        if eqn is None:
            return None
        if eqn.primitive.name == "reduce_sum":
            return eqn if not eqn.outvars[0].aval.shape else None
        given = [each for each in eqn.invars if not hasattr(each, "val") and region.known.get(each, Value()).over]
        if eqn.primitive.name not in _KEEPS or len(given) != 1:
            return None
        atom = given[0]
    return None


def lines_of_norm(eqn: Any, region: Region) -> tuple[Any, ...]:
    """The lines of a root of sums of squares, one number for all that a device holds; none of another root."""
    if getattr(eqn.outvars[0].aval, "shape", ()) or not _count_squares(eqn.invars[0], region, ROUNDS):
        return ()
    return tuple(map(tuple, region.operation_lines(eqn)[:4]))


def _count_squares(atom: Any, region: Region, depth: int) -> int:
    """Of how many squares an array is the sum, over all of its elements where it is one number; 0 of something else.

    What a mean was taken off before is none: of a spread that of one device's rows may do.
    """
    eqn = _making_operation(atom, region)
    if eqn is None or not depth:
        return 0
    name = eqn.primitive.name
    if name in ("add", "add_any"):
        terms = [one for one in eqn.invars if not hasattr(one, "val") and region.known.get(one, Value()).given]
        counts = [_count_squares(one, region, depth - 1) for one in terms]
        return sum(counts) if all(counts) else 0
    if name == "reduce_sum":
        return 0 if eqn.outvars[0].aval.shape else _count_squares(eqn.invars[0], region, depth - 1)
    same = name == "mul" and eqn.invars[0] is eqn.invars[1]
    if same or name == "square" or (name == "integer_pow" and eqn.params.get("y") == 2):
        before = _making_operation(eqn.invars[0], region)
        return int(before is None or before.primitive.name != "sub")
    return 0


def scaled_by_norm(eqn: Any, values: Sequence[Value], region: Region) -> tuple[Any, ...]:
    """The lines of the norm of what one device holds, where an operation scales arrays of that device by it."""
    shapes = [tuple(getattr(getattr(atom, "aval", None), "shape", ())) for atom in eqn.invars]
    for at, value in enumerate(values):
        atom = eqn.invars[at]
        if not value.norm or value.loose or hasattr(atom, "val") or _original_rank(atom, region):
            continue
        for other, each in enumerate(values):
            varies = value.over & each.over & frozenset(region.sizes)
            if other != at and math.prod(shapes[other]) >= _SMALL and varies and each.given and not each.loose:
                return value.norm
    return ()


def check_scaled_parts(value: Value, axes: Names, size: int, eqn: Any, region: Region) -> None:
    """A result put together of parts that were scaled by the norm of each. What is reduced after it was scaled is no
    part: to clip the gradients of each device before their mean is a plan of its own.
    """
    split = sorted(axes & value.over & frozenset(region.sizes))
    if value.scaled and split and size >= _SMALL and not region.pmap:
        region.note_observation("local-norm", eqn, list(map(list, value.scaled)), axes=split)


def _original_rank(atom: Any, region: Region) -> int:
    """The dimensions of an array, before it was laid out for others."""
    for _ in range(ROUNDS):
        eqn = region.maker.get(atom)
        if eqn is None or eqn.primitive.name not in TYPES or hasattr(eqn.invars[0], "val"):
            break
        atom = eqn.invars[0]
    return len(getattr(atom.aval, "shape", ()))


def _making_operation(atom: Any, region: Region) -> Any:
    """The operation a value comes from, past what only changes its type or shape."""
    for _ in range(ROUNDS):
        eqn = None if hasattr(atom, "val") else region.maker.get(atom)
        if eqn is None or eqn.primitive.name not in TYPES or hasattr(eqn.invars[0], "val"):
            return eqn
        atom = eqn.invars[0]
    return None
