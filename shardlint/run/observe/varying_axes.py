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
from .device_rings import find_rings
from .frames import place_of_source, user_lines_of_traceback
from .partial_results import lines_of_norm, scaled_by_norm
from .reductions import check_added_slices, check_first_rows, check_row_lookup, evaluate_collective
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
    constant_divisor,
    inner_jaxpr,
    is_count_constant,
    scan_counts,
)

_DRAWN = 4
_SOME = 16


def walk_jaxpr(jaxpr: Any, values: Sequence[Value], region: Region) -> list[Value]:
    """The values of the results of `jaxpr`, given those of its arguments."""
    known = region.known

    def read_atom(atom: Any) -> Value:
        return Value() if hasattr(atom, "val") else known.get(atom, Value())

    for variable in jaxpr.constvars:
        known[variable] = Value(given=not is_count_constant(variable))

    for variable, value in zip(jaxpr.invars, values, strict=False):
        known[variable] = value
    consumers = _find_consumers(jaxpr)
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        taken = [read_atom(atom) for atom in eqn.invars]
        results = _evaluate_special(eqn, name, taken, region, consumers)
        if results is None:
            joined = _join_values(taken)
            results = [joined] * len(eqn.outvars)
        for variable, value in zip(eqn.outvars, results, strict=False):
            known[variable] = value
            region.where[variable] = region.operation_lines(eqn)
            if name not in CALLS:
                region.maker[variable] = eqn
    return [read_atom(atom) for atom in jaxpr.outvars]


def _join_values(values: Sequence[Value]) -> Value:
    joined = Value()
    for value in values:
        joined = joined | value
    return joined


def _find_consumers(jaxpr: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if not hasattr(atom, "val"):
                found.setdefault(atom, []).append(eqn)
    return found


def _evaluate_special(eqn: Any, name: str, values: list[Value], region: Region, consumers: Any) -> list[Value] | None:
    if name in REDUCE or name in SCATTER or name in GATHER or name in MOVE:
        return evaluate_collective(eqn, name, values, region, consumers)
    if name == "axis_index":
        return [Value(frozenset(axes_of(eqn)))]
    if name in RANDOM:
        joined = _join_values(values)
        lines = tuple(map(tuple, region.operation_lines(eqn)[:4]))
        keys = frozenset(("own",)) if joined.over else joined.keys
        return [Value(joined.over, joined.given, lines, joined.loose, keys=keys, drawn=lines)] * len(eqn.outvars)
    if name == "sort" and any(value.random for value in values):
        return None  # a permutation, or the numbers in order: drawn all the same
    if name in ENDS_RANDOM:
        joined = _join_values(values)
        region.note_product(eqn, joined, program.count_product(eqn))
        return [replace(joined, random=())] * len(eqn.outvars)
    if name in ("sub", "add", "add_any"):
        check_added_slices(eqn, region)
    if name == "gather":
        check_row_lookup(eqn, values, region)
    if name == "slice":
        check_first_rows(eqn, values[0], region, consumers)
    if name in ("div", "mul"):
        scaled = _evaluate_scaled(eqn, values, region)
        norm = scaled_by_norm(eqn, values, region)
        return [replace(scaled, scaled=norm) if norm else scaled]
    if name == "sqrt" and (lines := lines_of_norm(eqn, region)):
        return [replace(values[0], norm=lines)]
    if name in MIX:
        _report_same_numbers(eqn, values, region)
        return None
    return _evaluate_nested(eqn, name, values, region)


def _evaluate_scaled(eqn: Any, values: list[Value], region: Region) -> Value:
    """A product or quotient, and by the size of which axis."""
    _report_same_numbers(eqn, values, region)
    joined = _join_values(values)
    times = constant_divisor(eqn, region)
    if not times:
        return joined
    by = frozenset(axis for axis, size in region.sizes.items() if abs(times - size) < 1e-6 * size)
    total = 1
    for size in region.sizes.values():
        total *= size
    if abs(times - total) < 1e-6 * total:
        by |= frozenset(region.sizes)
    return replace(joined, divided=joined.divided | by)


def _report_same_numbers(eqn: Any, values: list[Value], region: Region) -> None:
    """Random numbers that are the same on devices whose data differ. From keys that were copied, also few numbers, and
    beside numbers that each device draws for itself.
    """
    shape = getattr(eqn.outvars[0].aval, "shape", ())
    few = math.prod(shape) < _SOME
    for at, value in enumerate(values):
        copied = _is_drawn_alike(value, eqn)
        if few and not copied:
            continue
        if not value.random or not value.given or value.loose or hasattr(eqn.invars[at], "val"):
            continue
        if not _is_drawn_per_element(tuple(getattr(eqn.invars[at].aval, "shape", ())), shape):
            continue
        others = [
            each
            for other, each in enumerate(values)
            if other != at
            and (not each.random or (copied and "own" in each.keys))
            and getattr(getattr(eqn.invars[other], "aval", None), "shape", None) == shape
        ]
        missing = sorted({axis for each in others for axis in each.over} - value.over)
        if missing:
            what = "equal-keys" if few or any(each.random for each in others) else "same-random"
            region.note_observation(what, eqn, list(map(list, value.random)), axes=missing)


def _is_drawn_alike(value: Value, eqn: Any) -> bool:
    """Return whether a value is drawn from copied keys. What a gradient passes may be parameters, drawn in the
    function.
    """
    return "copied" in value.keys and not value.over and "jvp" not in str(eqn.source_info.name_stack)


def _is_drawn_per_element(drawn: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether random numbers are drawn for each element or row of a shape. One number for all of a device's
    data may be intended.
    """
    fits = len(drawn) == len(shape) and all(one in (1, part) for one, part in zip(drawn, shape, strict=True))
    return fits and math.prod(drawn) >= _DRAWN


def _evaluate_nested(eqn: Any, name: str, taken: list[Value], region: Region) -> list[Value] | None:
    params = eqn.params
    if name == "scan":
        return _walk_scan(eqn, taken, region)
    if name == "while":
        return _walk_while(eqn, taken, region)
    if name == "cond":
        branches = [walk_jaxpr(inner_jaxpr(each), taken[1:], region) for each in params["branches"]]
        return [_join_values([taken[0], *each]) for each in zip(*branches, strict=False)]
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if key in params and hasattr(inner_jaxpr(params[key]), "eqns"):
            body = inner_jaxpr(params[key])
            values = taken[-len(body.invars) :] if body.invars else []
            for outer, variable in zip(eqn.invars[-len(body.invars) :], body.invars, strict=False):
                if not hasattr(outer, "val") and outer in region.maker:
                    region.maker[variable] = region.maker[outer]
                elif not hasattr(outer, "val") and outer in region.dimensions:
                    region.dimensions[variable] = region.dimensions[outer]
            results = _walk_called_body(eqn, body, values, region)
            for variable, atom in zip(eqn.outvars, body.outvars, strict=False):
                if not hasattr(atom, "val") and atom in region.maker:
                    region.maker[variable] = region.maker[atom]
            return results
    return None


def _walk_called_body(eqn: Any, body: Any, values: list[Value], region: Region) -> list[Value]:
    """The body of a call; one of a library's is at the line of the user's that called it."""
    source = str(getattr(getattr(body, "debug_info", None), "func_src_info", "") or "")
    outermost = not region.at and place_of_source(source) is None
    if outermost:
        region.at = user_lines_of_traceback(eqn.source_info.traceback)
    try:
        return walk_jaxpr(body, values, region)
    finally:
        if outermost:
            region.at = []


def _walk_scan(eqn: Any, values: list[Value], region: Region) -> list[Value]:
    body = inner_jaxpr(eqn.params["jaxpr"])
    consts, carried = scan_counts(eqn)
    carry = values[consts : consts + carried]
    results = values
    for _ in range(ROUNDS):
        mute = Region(region.sizes, at=region.at)
        results = walk_jaxpr(body, [*values[:consts], *carry, *values[consts + carried :]], mute)
        grown = [old | new for old, new in zip(carry, results, strict=False)]
        if grown == carry:
            break
        carry = grown
    region.rings |= find_rings(body, body.invars[consts : consts + carried], body.outvars[:carried], carry, region)
    # A loop that begins with the same random numbers on each device, and goes on with those of its own.
    for old, new in zip(values[consts : consts + carried], carry, strict=True):
        if old.random and _is_drawn_alike(old, eqn) and "own" in new.keys and new.over:
            region.note_observation("equal-keys", eqn, list(map(list, old.random)), axes=sorted(new.over))
    results = walk_jaxpr(body, [*values[:consts], *carry, *values[consts + carried :]], region)
    return [old | new for old, new in zip(carry, results, strict=False)] + results[carried:]


def _walk_while(eqn: Any, values: list[Value], region: Region) -> list[Value]:
    tests, consts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    body = inner_jaxpr(eqn.params["body_jaxpr"])
    carry = values[tests + consts :]
    for _ in range(ROUNDS):
        results = walk_jaxpr(body, [*values[tests : tests + consts], *carry], Region(region.sizes))
        grown = [old | new for old, new in zip(carry, results, strict=False)]
        if grown == carry:
            break
        carry = grown
    region.rings |= find_rings(body, body.invars[consts:], body.outvars, carry, region)
    walk_jaxpr(body, [*values[tests : tests + consts], *carry], region)
    end = walk_jaxpr(inner_jaxpr(eqn.params["cond_jaxpr"]), [*values[:tests], *carry], Region(region.sizes))
    return [value | Value(end[0].over) for value in carry] if end else list(carry)
