"""Rows that fill up a batch, and functions whose results change with what those rows hold: they are counted.

Seen where batches are placed: at one line most come without such rows, and some end in them: in rows of zeros, in
copies of the last row, or in any that an array of ones and zeros beside them leaves out. When the program has
ended, the function that took the batch is run twice more on it, with the rows as they were and with others in them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

from . import event_sink, program, wrapper_arguments
from .event_sink import silence_errors, write_event
from .flat_operations import flatten_body
from .frames import user_lines_of_traceback
from .operation_comparison import evaluate_body
from .values import is_key

_ROWS = 16
_MOST = 2**25
_PROGRAMS = 32
_OPERATIONS = 1500
_WORK = 2e10
_SMALL = 4096
# The same program on other rows: what does not count them changes by nothing, or by the order of sums.
_CHANGED = 1e-5
_FIRST = 3
# Results of so many numbers may be sums over the rows: losses and counts in one array.
_FEW = 8
_MASKED = "masked elsewhere"
_placed: dict[int, tuple[Any, tuple[Any, ...], int]] = {}
_puts: dict[tuple[Any, ...], dict[str, Any]] = {}
_programs: list[dict[str, Any]] = []


@silence_errors
def note_put(pairs: Sequence[tuple[Any, Any]], lines: list[Any]) -> None:
    """Arrays of the host were placed by one call: whether they end in rows of zeros."""
    arrays = [before for before, _ in pairs]
    rows = {one.shape[0] for one in arrays if getattr(one, "shape", ())}
    if event_sink.still or not lines or len(rows) != 1 or min(rows) < _ROWS:
        return
    if any(hasattr(one, "sharding") for one in arrays) or sum(one.nbytes for one in arrays) > _MOST:
        return
    key = (tuple(lines[0]), tuple((one.shape, str(one.dtype)) for one in arrays))
    fresh = {"full": 0, "padded": 0, "lines": lines[:4], "arrays": None, "count": 0, "how": ""}
    known = _puts.setdefault(key, fresh)
    if known["full"] + known["padded"] < _FIRST:
        _placed.update((id(after), (weakref.ref(after), key, at)) for at, (_, after) in enumerate(pairs))
    several = [one for one in arrays if one.ndim]
    count, how = max(map(count_masked_rows, several)), _MASKED
    if not count:
        count, how = _count_filling_rows(several)
        if not count:
            known["full"] += 1
            return
    known["padded"] += 1
    if 0 < count < min(rows):
        known.update(count=count, how=how, arrays=[one.copy() for one in arrays])


def _count_filling_rows(several: Sequence[Any]) -> tuple[int, str]:
    """How many rows of zeros, or else how many copies of one row, all arrays but masks end in; and which."""
    several = [one for one in several if not is_mask(one)]
    examples = [one for one in several if _is_example_array(one)]
    if examples and not any(one[-1].any() for one in several):
        return min(map(_count_zero_rows, examples)), "zeros"
    if all(one.ndim < 2 for one in several):
        return 0, ""
    last = [(one == one[-1]).reshape(len(one), -1).all(axis=1) for one in several]
    count = min(len(one) if one.all() else int(one[::-1].argmin()) for one in last) - 1
    # Rows that are all alike are data of a trial.
    return (count, "copies of the last row") if 0 < count < len(last[0]) - 2 else (0, "")


def count_masked_rows(one: Any) -> int:
    """How many of the last rows an array leaves out that is of ones and then of zeros, whole rows of them."""
    flat = one.reshape(one.shape[0], -1)
    if not (flat[0] == 1).all() or flat[-1].any():
        return 0
    if not (flat == flat[:, :1]).all() or not is_mask(one):
        return 0
    count = _count_zero_rows(one)
    return count if flat[: len(flat) - count].all() else 0


def _is_example_array(one: Any) -> bool:
    """Return whether an array is one of examples, of several numbers each."""
    return one.dtype.kind == "f" and one.ndim > 1 and not is_mask(one)


def is_mask(one: Any) -> bool:
    """Return whether an array consists of zeros and ones."""
    some = one.reshape(-1)[:_ROWS]
    if not ((some == 0) | (some == 1)).all():
        return False
    return one.dtype.kind == "b" or bool(((one == 0) | (one == 1)).all() and one.any())


def _is_of_ones(one: Any) -> bool:
    """Return whether an array says of each row that it counts."""
    return one.ndim == 1 and is_mask(one) and bool(one.all())


def _count_zero_rows(one: Any) -> int:
    """How many rows of zeros an array ends in."""
    some = one.reshape(one.shape[0], -1).any(axis=1)
    return int(some[::-1].argmax()) if some.any() else len(some)


@silence_errors
def note_program(known: dict[str, Any], args: Sequence[Any], lines: list[Any]) -> None:
    """A program runs for the first time: which of its arguments were placed by which call."""
    import numpy as np

    closed = known["closed"]
    if (
        closed is None
        or not wrapper_arguments.is_user_function(known)
        or len(_programs) >= _PROGRAMS
        or len(args) != len(closed.in_avals)
    ):
        return
    by: dict[tuple[Any, ...], dict[int, int]] = {}
    for at, one in enumerate(args):
        place = _placed.get(id(one))
        if place is not None and place[0]() is one:
            by.setdefault(place[1], {})[at] = place[2]
    few = any(aval.size <= _FEW and getattr(aval.dtype, "kind", "") == "f" for aval in closed.out_avals)
    if not by or not few or known["work"] > _WORK or known["pmap"]:
        return
    if not _programs:
        atexit.register(_check_at_end)
    # Copies: the program may donate them.
    kept = [np.array(one) if 0 < getattr(one, "nbytes", 0) <= _SMALL and not is_key(one) else None for one in args]
    shardings = [getattr(one, "sharding", None) for one in args]
    _programs.append({
        "closed": closed, "by": by, "kept": kept, "shardings": shardings, "name": known["name"],
        "defined": known["defined"], "called": lines[:4], "names": known["arguments"],
    })  # fmt: skip


@silence_errors
def _check_at_end() -> None:
    import jax

    if "SHARDLINT_RUN_PROCESS" in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="shardlint-run-")
    try:
        for key, put in _puts.items():
            if put["arrays"] is None or not 0 < put["padded"] <= put["full"]:
                continue
            for one in _programs:
                if key in one["by"]:
                    event_sink.still.append(True)
                    try:
                        found = _find_padding_effect(jax, one, one["by"][key], put, folder)
                    finally:
                        event_sink.still.clear()
                    if found is not None:
                        told = {key: one[key] for key in ("name", "defined", "called")}
                        rows = put["arrays"][0].shape[0]
                        told |= {"rows": rows, "count": put["count"], "how": put["how"]}
                        told["ones"] = [
                            one["names"][number] for number, at in one["by"][key].items()
                            if number < len(one["names"]) and put["how"] != _MASKED and _is_of_ones(put["arrays"][at])
                        ][:1]  # fmt: skip
                        write_event("padded", put=put["lines"], **told, **found)
                        break
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _find_padding_effect(
    jax: Any, one: dict[str, Any], at: dict[int, int], put: dict[str, Any], folder: str
) -> dict[str, Any] | None:
    """The result that changes with what the rows that fill up hold, and the line that takes the rows together."""
    import numpy as np

    closed = one["closed"]
    rows = put["arrays"][0].shape[0]
    if sum(1 for _ in program.iterate_operations(closed.jaxpr)) > _OPERATIONS:
        return None
    back = {(aval.shape, aval.dtype) for aval in closed.out_avals}
    args: list[Any] = []
    for number, aval in enumerate(closed.in_avals):
        kept = one["kept"][number]
        if number in at:
            args.append(put["arrays"][at[number]])
        elif (
            aval.shape[:1] == (rows,)
            and put["how"] != _MASKED
            and (aval.ndim < 2 or (aval.shape, aval.dtype) not in back)
        ):
            return None  # may say which rows are there
        elif kept is not None and kept.ndim == 0 and kept.dtype.kind in "iu" and kept == rows:
            return None  # may say how many are there
        elif kept is not None:
            args.append(kept)
        elif getattr(aval.dtype, "kind", "") == "f" or "bfloat16" in str(aval.dtype):
            args.append(np.random.default_rng(number).normal(size=aval.shape).astype(aval.dtype) * 0.1)
        else:
            return None
    changed = list(args)
    for number in at:
        if _is_example_array(args[number]):
            changed[number] = args[number].copy()
            size = changed[number][-put["count"] :].shape
            changed[number][-put["count"] :] = np.random.default_rng(1).normal(size=size)
        elif put["how"] != "zeros" and not is_mask(args[number]):
            # Numbers of classes or words, of which others there are good.
            changed[number] = np.roll(args[number], put["count"], axis=0)
            changed[number][: -put["count"]] = args[number][: -put["count"]]

    def run_again(*given: Any) -> Any:
        return tuple(evaluate_body(closed.jaxpr, closed.consts, given, {}, None))

    run = jax.jit(run_again, compiler_options={"xla_dump_to": folder, "xla_backend_optimization_level": 0})
    try:
        results = [_run_program(jax, run, each, one["shardings"]) for each in (args, changed)]
    except Exception:  # what cannot be run again is not judged
        if os.environ.get("SHARDLINT_RUN_DEBUG"):
            raise
        return None
    for number, (first, second) in enumerate(zip(*results, strict=True)):
        if first.size <= _FEW and first.dtype.kind == "f" and np.isfinite([first, second]).all():
            if (np.abs(first - second) > _CHANGED * np.abs(first)).any():
                lines = _lines_before_result(closed.jaxpr, number, rows)
                return {"lines": lines} if lines else None
    return None


def _run_program(jax: Any, run: Any, args: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    given = [one if lies is None else jax.device_put(one, lies) for one, lies in zip(args, shardings, strict=True)]
    return [jax.device_get(one) for one in run(*given)]


def lines_joining_rows(jaxpr: Any, rows: Sequence[int]) -> list[Any]:
    """The user's lines that make one of all the rows for a result that has no rows, the smallest of those. `rows` are
    how many there are; for `pmap` how many devices, and how many rows each has.
    """
    small = [at for at, one in enumerate(jaxpr.outvars) if rows[-1] not in one.aval.shape[len(rows) - 1 :]]
    small = [at for at in small if not hasattr(jaxpr.outvars[at], "val")]
    small.sort(key=lambda at: int(jaxpr.outvars[at].aval.size))
    return next((lines for at in small if (lines := _lines_before_result(jaxpr, at, rows[0]))), [])


def _lines_before_result(jaxpr: Any, result: int, rows: int) -> list[Any]:
    """The user's lines of the last operation before a result that makes one of all the rows, or of a device's own."""
    ops = flatten_body(jaxpr)
    waiting, done = [ops.results[result]], set[int]()
    while waiting:
        number = waiting.pop(0)
        op = ops.operations_by_value.get(number) if number is not None and number not in done else None
        if op is None or number is None:
            continue
        done.add(number)
        lines = op.at or user_lines_of_traceback(op.eqn.source_info.traceback)
        shape = ops.shape_of_value(op.takes[0]) if op.takes else ()
        if op.name == "reduce_sum" and rows in (shape[axis] for axis in op.params["axes"]) and lines:
            return lines[:4]
        if op.name == "shard_map":
            body = op.eqn.params["jaxpr"]
            pairs = zip(body.invars, op.takes, strict=False)
            taken = [one.aval.shape for one, outer in pairs if ops.shape_of_value(outer)[:1] == (rows,)]
            # pmap gives each device one of the first dimension: its rows are the second.
            own = [one[1] if one[0] == 1 and len(one) > 1 else one[0] for one in taken]
            if own and (found := _lines_before_result(body, op.gives.index(number), min(own))):
                return found
        waiting += op.takes
    return []
