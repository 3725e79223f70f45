"""Mesh axes over which values vary in a manual region, derived from its operations before compilation.

A value varies over an axis where devices along it may hold different numbers. Arguments say so by their specs,
`psum` and `all_gather` end it, `axis_index` begins it; everything else varies as what it takes does. A value
taken for varying may still be equal everywhere (a ring of `ppermute`): such ones are `loose`, and not judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from . import program
from .frames import of_traceback, place
from .parts import norm_of, scaled_by_norm
from .rings import rings
from .sums import all_slices, collective, first_rows, other_rows
from .values import (
    CALLS,
    ENDS_RANDOM,
    GATHER,
    MIX,
    MOVE,
    RANDOM,
    REDUCE,
    ROUNDS,
    SCATTER,
    Region,
    Value,
    axes_of,
    divisor,
    inner,
    only_counts,
    scan_counts,
)

_DRAWN = 4


def walk(jaxpr: Any, values: Sequence[Value], region: Region) -> list[Value]:
    """The values of the results of `jaxpr`, given those of its arguments."""
    known = region.known

    def read(atom: Any) -> Value:
        return Value() if hasattr(atom, "val") else known.get(atom, Value())

    for variable in jaxpr.constvars:
        known[variable] = Value(given=not only_counts(variable))

    for variable, value in zip(jaxpr.invars, values, strict=False):
        known[variable] = value
    consumers = _consumers(jaxpr)
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        taken = [read(atom) for atom in eqn.invars]
        results = _special(eqn, name, taken, region, consumers)
        if results is None:
            joined = _join(taken)
            results = [joined] * len(eqn.outvars)
        for variable, value in zip(eqn.outvars, results, strict=False):
            known[variable] = value
            region.where[variable] = region.lines(eqn)
            if name not in CALLS:
                region.maker[variable] = eqn
    return [read(atom) for atom in jaxpr.outvars]


def _join(values: Sequence[Value]) -> Value:
    joined = Value()
    for value in values:
        joined = joined | value
    return joined


def _consumers(jaxpr: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if not hasattr(atom, "val"):
                found.setdefault(atom, []).append(eqn)
    return found


def _special(eqn: Any, name: str, taken: list[Value], region: Region, consumers: Any) -> list[Value] | None:
    if name in REDUCE or name in SCATTER or name in GATHER or name in MOVE:
        return collective(eqn, name, taken, region, consumers)
    if name == "axis_index":
        return [Value(frozenset(axes_of(eqn)))]
    if name in RANDOM:
        joined = _join(taken)
        lines = tuple(map(tuple, region.lines(eqn)[:4]))
        return [Value(joined.over, joined.given, lines, joined.loose, drawn=lines)] * len(eqn.outvars)
    if name == "sort" and any(value.random for value in taken):
        return None  # a permutation, or the numbers in order: drawn all the same
    if name in ENDS_RANDOM:
        joined = _join(taken)
        region.multiplied(eqn, joined, program.product(eqn))
        return [replace(joined, random=())] * len(eqn.outvars)
    if name in ("sub", "add", "add_any"):
        all_slices(eqn, region)
    if name == "gather":
        other_rows(eqn, taken, region)
    if name == "slice":
        first_rows(eqn, taken[0], region, consumers)
    if name in ("div", "mul"):
        scaled = _scaled(eqn, taken, region)
        norm = scaled_by_norm(eqn, taken, region)
        return [replace(scaled, scaled=norm) if norm else scaled]
    if name == "sqrt" and (lines := norm_of(eqn, region)):
        return [replace(taken[0], norm=lines)]
    if name in MIX:
        _same_numbers(eqn, taken, region)
        return None
    return _nested(eqn, name, taken, region)


def _scaled(eqn: Any, taken: list[Value], region: Region) -> Value:
    """A product or quotient, and by the size of which axis."""
    _same_numbers(eqn, taken, region)
    joined = _join(taken)
    times = divisor(eqn, region)
    if not times:
        return joined
    by = frozenset(axis for axis, size in region.sizes.items() if abs(times - size) < 1e-6 * size)
    total = 1
    for size in region.sizes.values():
        total *= size
    if abs(times - total) < 1e-6 * total:
        by |= frozenset(region.sizes)
    return replace(joined, divided=joined.divided | by)


def _same_numbers(eqn: Any, taken: list[Value], region: Region) -> None:
    """Random numbers that are the same on devices whose data differ."""
    shape = getattr(eqn.outvars[0].aval, "shape", ())
    size = 1
    for part in shape:
        size *= part
    if size < 16:
        return
    for at, value in enumerate(taken):
        if not value.random or not value.given or value.loose or hasattr(eqn.invars[at], "val"):
            continue
        if not _several(tuple(getattr(eqn.invars[at].aval, "shape", ())), shape):
            continue
        others = [
            each
            for other, each in enumerate(taken)
            if other != at
            and not each.random
            and getattr(getattr(eqn.invars[other], "aval", None), "shape", None) == shape
        ]
        missing = sorted({axis for each in others for axis in each.over} - value.over)
        if missing:
            region.tell("same-random", eqn, list(map(list, value.random)), axes=missing)


def _several(drawn: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether random numbers are drawn for each element or row of a shape. One number for all of a device's
    data may be intended.
    """
    fits = len(drawn) == len(shape) and all(one in (1, part) for one, part in zip(drawn, shape, strict=True))
    return fits and math.prod(drawn) >= _DRAWN


def _nested(eqn: Any, name: str, taken: list[Value], region: Region) -> list[Value] | None:
    params = eqn.params
    if name == "scan":
        return _scan(eqn, taken, region)
    if name == "while":
        return _while(eqn, taken, region)
    if name == "cond":
        branches = [walk(inner(each), taken[1:], region) for each in params["branches"]]
        return [_join([taken[0], *each]) for each in zip(*branches, strict=False)]
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if key in params and hasattr(inner(params[key]), "eqns"):
            body = inner(params[key])
            values = taken[-len(body.invars) :] if body.invars else []
            for outer, variable in zip(eqn.invars[-len(body.invars) :], body.invars, strict=False):
                if not hasattr(outer, "val") and outer in region.maker:
                    region.maker[variable] = region.maker[outer]
                elif not hasattr(outer, "val") and outer in region.dimensions:
                    region.dimensions[variable] = region.dimensions[outer]
            results = _through(eqn, body, values, region)
            for variable, atom in zip(eqn.outvars, body.outvars, strict=False):
                if not hasattr(atom, "val") and atom in region.maker:
                    region.maker[variable] = region.maker[atom]
            return results
    return None


def _through(eqn: Any, body: Any, values: list[Value], region: Region) -> list[Value]:
    """The body of a call; one of a library's is at the line of the user's that called it."""
    source = str(getattr(getattr(body, "debug_info", None), "func_src_info", "") or "")
    outermost = not region.at and place(source) is None
    if outermost:
        region.at = of_traceback(eqn.source_info.traceback)
    try:
        return walk(body, values, region)
    finally:
        if outermost:
            region.at = []


def _scan(eqn: Any, taken: list[Value], region: Region) -> list[Value]:
    body = inner(eqn.params["jaxpr"])
    consts, carried = scan_counts(eqn)
    carry = taken[consts : consts + carried]
    results = taken
    for _ in range(ROUNDS):
        mute = Region(region.sizes, at=region.at)
        results = walk(body, [*taken[:consts], *carry, *taken[consts + carried :]], mute)
        grown = [old | new for old, new in zip(carry, results, strict=False)]
        if grown == carry:
            break
        carry = grown
    region.rings |= rings(body, body.invars[consts : consts + carried], body.outvars[:carried], carry, region)
    results = walk(body, [*taken[:consts], *carry, *taken[consts + carried :]], region)
    return [old | new for old, new in zip(carry, results, strict=False)] + results[carried:]


def _while(eqn: Any, taken: list[Value], region: Region) -> list[Value]:
    tests, consts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    body = inner(eqn.params["body_jaxpr"])
    carry = taken[tests + consts :]
    for _ in range(ROUNDS):
        results = walk(body, [*taken[tests : tests + consts], *carry], Region(region.sizes))
        grown = [old | new for old, new in zip(carry, results, strict=False)]
        if grown == carry:
            break
        carry = grown
    region.rings |= rings(body, body.invars[consts:], body.outvars, carry, region)
    walk(body, [*taken[tests : tests + consts], *carry], region)
    end = walk(inner(eqn.params["cond_jaxpr"]), [*taken[:tests], *carry], Region(region.sizes))
    return [value | Value(end[0].over) for value in carry] if end else list(carry)
