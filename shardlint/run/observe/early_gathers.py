"""Detection of arrays that a region replicates though each device needs a part or a sum, and of loop-invariant gathers
repeated in each iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from . import program
from .event_sink import silence_errors
from .flat_operations import LOOP, FlatOperation, FlatRegion
from .values import CALLS, GATHER, REDUCE, ROUNDS, TYPES, Names, Region, axes_of, inner_jaxpr, scan_counts

_SUMS = frozenset(("reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_prod"))
_SAME = TYPES - {"reshape", "broadcast_in_dim"} | {LOOP, "neg", "stop_gradient"}
_PAIRED = frozenset(("add", "sub", "mul", "div", "max", "min", "pow", "eq", "ne", "lt", "le", "gt", "ge", "and", "or"))
_CUTS = frozenset(("dynamic_slice", "gather"))
_MOST = 400


@silence_errors
def check_gathered_first(ops: FlatRegion, region: Region) -> None:
    """Tell what is seen in a region."""
    if region.back or region.differentiated:
        return
    own = _differing_axes(ops, region)
    gathers: dict[Names, list[FlatOperation]] = {}
    for op in ops.ops:
        axes = frozenset(axes_of(op.eqn)) if op.name in REDUCE | GATHER else frozenset()
        size = math.prod(region.sizes.get(axis, 1) for axis in axes)
        if size < 2 or not axes <= set(region.sizes) or op.params.get("axis_index_groups") is not None:
            continue
        if op.name in GATHER:
            gathers.setdefault(axes, []).append(op)
        elif op.name not in ("pmax", "pmin"):
            _check_sum_then_cut(op, axes, size, ops, region)
    for axes, each in gathers.items():
        _check_gather_then_sum(each, axes, ops, own, region)


def _differing_axes(ops: FlatRegion, region: Region) -> dict[int, Names]:
    """The axes along which each value may differ."""
    known = {
        number: frozenset().union(*dims) & frozenset(region.sizes)
        for number, dims in zip(ops.arguments, region.dimensions.values(), strict=False)
    }
    for op in ops.ops:
        axes = frozenset(axes_of(op.eqn)) if op.name in REDUCE | GATHER else frozenset()
        joined = frozenset().union(*(known.get(one, frozenset()) for one in op.takes if one is not None)) - axes
        joined |= frozenset(axes_of(op.eqn)) if op.name == "axis_index" else frozenset()
        known.update(dict.fromkeys(op.gives, joined))
    return known


def _report_operation(what: str, op: FlatOperation, axes: Names, region: Region, **facts: Any) -> None:
    region.note_observation(what, op.eqn, op.at or region.operation_lines(op.eqn), axes=sorted(axes), **facts)


def _check_sum_then_cut(op: FlatOperation, axes: Names, size: int, ops: FlatRegion, region: Region) -> None:
    """A sum over devices of which each device keeps its own part."""
    for number in op.gives:
        waiting, cuts, dim = [number], list[FlatOperation](), -1
        while waiting and len(cuts) < _MOST:
            one = waiting.pop()
            users = ops.users.get(one, [])
            for user in users:
                others = [each for each in user.takes if each != one and each is not None and ops.shape_of_value(each)]
                if user.name in _CUTS and user.takes[0] == one and _is_offset_by_device(user, axes, ops):
                    cuts.append(user)
                    dim = next(
                        (at for at, (a, b) in enumerate(zip(ops.shape_of_value(one),
                        user.params["slice_sizes"], strict=False))
                         if a == b * size or a == size), dim,
                    )  # fmt: skip
                elif (user.name in _SAME | {"mul", "div", "reshape"}) and not others:
                    waiting += user.gives
                else:
                    return
            if not users or one in ops.results:
                return
        if cuts:
            aval = ops.avals[number]
            bytes_ = program.bytes_when_whole(aval)
            _report_operation(
                "summed-then-cut",
                op,
                axes,
                region,
                size=size,
                dim=max(dim, 0),
                bytes=bytes_,
                shape=_type_as_text(aval),
            )
            return


def _is_offset_by_device(op: FlatOperation, axes: Names, ops: FlatRegion) -> bool:
    """Return whether a slice begins at an offset computed from the device's index."""
    for one in op.takes[1:]:
        if one is not None:
            for each in ops.values_behind(one):
                made = ops.operations_by_value.get(each)
                if made is not None and made.name == "axis_index" and set(axes_of(made.eqn)) <= axes:
                    return True
    return False


def _type_as_text(aval: Any) -> str:
    return f"{aval.dtype}[{','.join(map(str, aval.shape))}]"


def _check_gather_then_sum(
    gathers: Sequence[FlatOperation], axes: Names, ops: FlatRegion, own: dict[int, Names], region: Region
) -> None:
    """Report arrays that are all-gathered along some axes, and then only summed along their rows on each device."""
    rows = {op.gives[0]: int(op.params.get("all_gather_dimension", 0)) for op in gathers}
    summed = set[int]()
    for op in ops.ops:
        mine = [one for one in op.takes if one in rows]
        if not mine or op in gathers:
            continue
        if op.name in _SUMS and rows[mine[0]] in op.params["axes"]:
            summed.update(op.gives)
            continue
        to = {_row_dimension_after(op, one, rows[one], axes, ops, own) for one in mine if one is not None}
        if (
            len(to) == 1
            and (row := to.pop()) is not None
            and all(_are_operands_rowwise(one, op, row, rows, ops) for one in op.takes)
        ):
            rows.update(dict.fromkeys(op.gives, row))
    for op in gathers:
        if _is_used_by_row(op.gives[0], rows, summed, ops):
            aval = ops.avals[op.gives[0]]
            size = math.prod(region.sizes[axis] for axis in axes)
            _report_operation(
                "gathered-then-summed",
                op,
                axes,
                region,
                size=size,
                bytes=program.bytes_when_whole(aval),
                shape=_type_as_text(aval),
            )


def _is_used_by_row(number: int, rows: dict[int, int], summed: set[int], ops: FlatRegion) -> bool:
    """Return whether all uses of a value work on each row by itself, and end in sums over rows."""
    waiting, done = [number], set[int]()
    while waiting:
        one = waiting.pop()
        done.add(one)
        if one in ops.results or len(done) > _MOST or not ops.users.get(one):
            return False
        gives = {give for user in ops.users[one] for give in user.gives} - summed
        if not gives <= set(rows):
            return False
        waiting += gives - done
    return True


def _row_dimension_after(
    op: FlatOperation, one: int, row: int, axes: Names, ops: FlatRegion, own: dict[int, Names]
) -> int | None:
    """The dimension of the rows after an operation that works on each by itself; None after another one."""
    shape, name = ops.shape_of_value(one), op.name
    out = ops.shape_of_value(op.gives[0])
    if name in _SUMS or name in ("argmax", "argmin"):
        return None if row in op.params["axes"] else row - sum(at < row for at in op.params["axes"])
    if name == "broadcast_in_dim":
        to = op.params["broadcast_dimensions"][row]
        return int(to) if out[to] == shape[row] else None
    if name == "reshape":
        if math.prod(out[: row + 1]) == math.prod(shape[: row + 1]) and len(out) > row and out[row] == shape[row]:
            return row
        return None
    if name == "transpose":
        return int(op.params["permutation"].index(row))
    if name == "squeeze":
        return None if row in op.params["dimensions"] else row - sum(at < row for at in op.params["dimensions"])
    if name == "dot_general":
        (left, right), (left_batch, right_batch) = op.params["dimension_numbers"]
        mine = op.takes.index(one)
        other = op.takes[1 - mine]
        contracted, batch = ((left, left_batch), (right, right_batch))[mine]
        if row in contracted or batch or other is None or axes & own.get(other, frozenset()):
            return None
        free = [at for at in range(len(shape)) if at not in contracted]
        before = 0 if mine == 0 else len(ops.shape_of_value(op.takes[0])) - len(left)
        return before + free.index(row)
    same = len(out) == len(shape) and out == shape
    return (
        row
        if same and (name in _SAME | _PAIRED | {"select_n"} or len(op.takes) == 1) and not _mixes_rows(name)
        else None
    )


def _mixes_rows(name: str) -> bool:
    """Return whether an operation on one array combines its rows."""
    return name.startswith(("cum", "sort", "rev", "fft", "top_k", "all_", "ppermute", "p", "reduce")) and name != "pow"


def _are_operands_rowwise(
    other: int | None, op: FlatOperation, row: int, rows: dict[int, int], ops: FlatRegion
) -> bool:
    """Return whether the other operands of an operation are made of rows, too, or equal for all rows."""
    if other is None or other in rows or op.name == "dot_general" or not ops.shape_of_value(other):
        return True
    made = ops.operations_by_value.get(other)
    for _ in range(ROUNDS):
        if made is None or made.name not in ("convert_element_type", "copy", "pvary", "pcast"):
            break
        made = ops.operations_by_value.get(made.takes[0]) if made.takes[0] is not None else None
    return made is not None and made.name == "broadcast_in_dim" and row not in made.params["broadcast_dimensions"]


@silence_errors
def check_loop_gathers(body: Any, region: Region) -> None:
    """Tell of loops that gather, in each round, one large array that no round changes. Where they gather several in
    turn, as a step does that keeps no more than one layer whole, it is meant.
    """
    if region.back:
        return
    for eqn, inside, constants in _find_loops(body):
        gathers = [(one, region.sizes) for one in _all_operations(inside) if one.primitive.name in GATHER]
        sizes = [program.bytes_when_whole(one.outvars[0].aval) for one, _ in gathers]
        kept = _loop_constants(inside, constants)
        for (one, _), size in zip(gathers, sizes, strict=True):
            axes = frozenset(axes_of(one)) & set(region.sizes)
            if axes and one.invars[0] in kept and 2 * size > sum(sizes):
                rounds = eqn.params.get("length")
                shape = _type_as_text(one.outvars[0].aval)
                region.note_observation(
                    "gather-in-loop", one, axes=sorted(axes), bytes=size, shape=shape, rounds=rounds
                )


def _find_loops(body: Any) -> Iterator[tuple[Any, Any, frozenset[int]]]:
    """Loops, their bodies, and which arguments of those are the same in each round."""
    for eqn in body.eqns:
        if eqn.primitive.name == "scan" and eqn.params.get("length", 2) > 1:
            yield eqn, inner_jaxpr(eqn.params["jaxpr"]), frozenset(range(scan_counts(eqn)[0]))
        elif eqn.primitive.name == "while":
            yield eqn, inner_jaxpr(eqn.params["body_jaxpr"]), frozenset(range(eqn.params["body_nconsts"]))
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                if hasattr(inner_jaxpr(each), "eqns"):
                    yield from _find_loops(inner_jaxpr(each))


def _all_operations(body: Any) -> Iterator[Any]:
    for eqn in body.eqns:
        yield eqn
        if eqn.primitive.name in CALLS:
            for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
                if hasattr(inner_jaxpr(eqn.params.get(key)), "eqns"):
                    yield from _all_operations(inner_jaxpr(eqn.params[key]))


def _loop_constants(body: Any, constants: frozenset[int]) -> set[Any]:
    """The variables of a loop's body, also inside of calls, that no round changes."""
    kept = {body.invars[at] for at in constants}
    for eqn in body.eqns:
        taken = [None if hasattr(atom, "val") else atom for atom in eqn.invars]
        if eqn.primitive.name in TYPES and taken[0] in kept:
            kept.update(eqn.outvars)
        elif eqn.primitive.name in CALLS:
            for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
                called = inner_jaxpr(eqn.params.get(key))
                if hasattr(called, "eqns"):
                    first = len(taken) - len(called.invars)
                    inside = (at - first for at, one in enumerate(taken) if one in kept and at >= first)
                    kept |= _loop_constants(called, frozenset(inside))
    return kept
