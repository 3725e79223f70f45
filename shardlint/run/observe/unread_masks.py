"""A mask of rows that a function is given and does not read: rows that only fill up its batch are counted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from . import later_calls, wrapper_arguments
from .event_sink import silence_errors, write_event
from .flat_operations import FlatRegion, flatten_body
from .padding_rows import count_masked_rows, is_mask, lines_joining_rows
from .values import TYPES, inner_jaxpr

_ROWS = 8
_TESTS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


@silence_errors
def watch_unread_masks(
    executable: Any, known: dict[str, Any], args: Sequence[Any], lines: list[Any], first: int
) -> None:
    """Of a program that runs for the first time: look at arrays beside its batch that the compiler has dropped, now and
    in later calls. `first` is how many constants come before the arguments.
    """
    closed, names = known["closed"], known["arguments"]
    if closed is None or not wrapper_arguments.is_user_function(known) or "SHARDLINT_RUN_PROCESS" in os.environ:
        return
    if not len(names) == len(args) == len(closed.in_avals):
        return
    kept = {at - first for at in executable.kept_var_idx}
    pmap = known["pmap"] or any(each["pmap"] for each in known["regions"])
    for at, one in enumerate(args):
        shape = tuple(getattr(one, "shape", ()))[: 2 if pmap else 1]
        if at in kept or not shape or len(shape) < 1 + pmap or shape[0] * shape[-1] ** pmap < _ROWS:
            continue
        parent, _ = wrapper_arguments.split_name(names[at])
        beside = [
            other for other in kept
            if 0 <= other < len(names) and wrapper_arguments.split_name(names[other])[0] == parent
            and tuple(getattr(args[other], "shape", ()))[: len(shape)] == shape
        ]  # fmt: skip
        if beside and getattr(one.dtype, "kind", "") in "fiub":
            found = lines_joining_rows(closed.jaxpr, shape)
            facts = {"name": known["name"], "defined": known["defined"], "lines": found, "mask": names[at]}
            check = _make_check(closed.jaxpr, at, beside, len(shape), {**facts, "batch": parent or "its batch"})
            if found and not check(args, lines):
                later_calls.watch_calls(executable, check)


def _make_check(jaxpr: Any, at: int, beside: list[int], dims: int, facts: dict[str, Any]) -> later_calls.Check:
    def check(args: Sequence[Any], lines: list[Any]) -> bool:
        import numpy as np

        mask = np.asarray(args[at])
        rows = int(np.prod(mask.shape[:dims]))
        if not mask.reshape(-1)[:1].all() or mask.reshape(-1)[-1:].any():
            return False
        count = count_masked_rows(mask.reshape(rows, -1))
        if not count:
            return False
        others = [np.asarray(args[other]).reshape(rows, -1) for other in beside]
        told = any(is_mask(one) and count_masked_rows(one) == count for one in others)
        if not told and any(_is_filling(one, count) for one in others):
            if not _tests_rows(jaxpr, beside):
                write_event("padded", put=[], called=lines[:4], rows=rows, count=count, how="", **facts)
        return True

    return check


def _is_filling(rows: Any, count: int) -> bool:
    """Return whether the last rows are zeros, copies of one row, or of the first ones."""
    last = rows[-count:]
    return bool((last == 0).all() or (last == rows[-count - 1]).all() or (count > 1 and (last == last[0]).all())
                or (2 * count <= len(rows) and (last == rows[:count]).all()))  # fmt: skip


def _tests_rows(jaxpr: Any, batch: list[int]) -> bool:
    """Return whether a program compares what is in a batch with a number, and goes on with floats: it may know padding
    by its words or labels.
    """
    ops = flatten_body(jaxpr)
    same = _values_kept({ops.arguments[at] for at in batch}, ops)
    tests = [op for op in ops.ops if op.name in _TESTS and None in op.takes]
    tested = {op.gives[0] for op in tests if not same.isdisjoint(op.takes)}
    regions = [op for op in ops.ops if op.name == "shard_map"]
    return any(
        _tests_rows(inner_jaxpr(op.params["jaxpr"]), [at for at, one in enumerate(op.takes) if one in same])
        for op in regions
    ) or any(
        ops.type_letter(op.gives[0]) == "f" or op.name in ("and", "reduce_sum")
        for number in _values_kept(tested, ops, bools=True)
        for op in ops.users.get(number, ())
    )


def _values_kept(numbers: set[int], ops: FlatRegion, bools: bool = False) -> set[int]:
    """These values, and those that hold the same in another form; with `bools` no other type."""
    found = set(numbers)
    for op in ops.ops:
        if op.name in TYPES | {"squeeze", "slice"} and op.takes[0] in found:
            if not bools or ops.type_letter(op.gives[0]) == "b":
                found.update(op.gives)
    return found
