"""Arguments of which each call writes a part and gives back the rest, such as a cache of keys and values.

Without donation each call copies all of it. It could be donated if each call takes what the one before gave, and nobody
holds it any more when the next call comes.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from . import later_calls, wrapper_arguments
from .event_sink import silence_errors, write_event
from .flat_operations import LOOP, FlatOperation, FlatRegion, flatten_body
from .frames import user_lines_of_traceback
from .program import bytes_per_device, bytes_when_whole

_LEAST = 2**14
_PART = 8
_CALLS = 8
_ROW = 2
_KEEPING = frozenset((LOOP, "reshape", "squeeze", "expand_dims", "sharding_constraint", "copy", "pvary", "pcast"))
Written = tuple[int, int, list[Any]]


@silence_errors
def find_rewritten_arguments(known: dict[str, Any], args: Sequence[Any]) -> list[Written]:
    """The arguments of a program that it does not donate and rewrites in part, with the results that hold them then,
    and the user's lines that write.
    """
    closed = known["closed"]
    if closed is None or known["pmap"] or not wrapper_arguments.is_user_function(known):
        return []
    avals = closed.in_avals
    large = {at for at, aval in enumerate(avals) if bytes_when_whole(aval) >= _LEAST and at not in known["donated"]}
    alike = {(aval.shape, aval.dtype) for at, aval in enumerate(avals) if at in large}
    if len(args) != len(avals) or not any((aval.shape, aval.dtype) in alike for aval in closed.out_avals):
        return []
    ops = flatten_body(closed.jaxpr)
    return [one for one in _iterate_written(ops) if one[0] in large]


def _iterate_written(ops: FlatRegion) -> Iterator[Written]:
    numbers = {number: at for at, number in enumerate(ops.arguments)}
    for result, one in enumerate(ops.results):
        number, lines = one, list[Any]()
        while number is not None and number not in numbers:
            op = ops.operations_by_value.get(number)
            if op is None or (op.name == LOOP and len(op.takes) > 1):
                break
            if (update := _update_of(op)) is not None:
                if _size_of_value(ops, update) * _PART > _size_of_value(ops, op.takes[0]):
                    break
                lines = op.at or user_lines_of_traceback(op.eqn.source_info.traceback)
            elif op.name not in _KEEPING:
                break
            number = op.takes[0]
        if number in numbers and lines and ops.shape_of_value(number) == ops.shape_of_value(one):
            yield numbers[number], result, lines[:4]


def _size_of_value(ops: FlatRegion, number: int | None) -> int:
    return math.prod(ops.shape_of_value(number))


def _update_of(op: FlatOperation) -> int | None:
    """The values that an operation writes into a part of its first operand."""
    at = {"dynamic_update_slice": 1, "scatter": 2, "scatter-add": 2}.get(op.name)
    return None if at is None else op.takes[at]


@silence_errors
def watch_rewritten_arguments(
    executable: Any, known: dict[str, Any], written: Sequence[Written], args: Sequence[Any], results: Sequence[Any]
) -> None:
    """Tell of them when some calls in a row have taken what the call before gave, and what that one took is gone."""
    written = [one for one in written if _is_laid_out_alike(args[one[0]], results[one[1]])]
    if not written:
        return
    before = [weakref.ref(args[at]) for at, _, _ in written]
    calls, row = 0, 0

    def check_later_call(args: Sequence[Any], lines: list[Any]) -> bool:
        nonlocal calls, row
        # The state that the program begins with may have a name of its own.
        gone = all(one() is None for one in before)
        fed = all(later_calls.last_result(executable, result) is args[at] for at, result, _ in written)
        calls, row = calls + 1, row + 1 if gone and fed else 0
        before[:] = [weakref.ref(args[at]) for at, _, _ in written]
        if row == _ROW:
            names = dict(enumerate(known["arguments"]))
            leaves = [_describe_argument(names.get(at, f"argument {at}"), args[at]) for at, _, _ in written]
            facts = {"name": known["name"], "defined": known["defined"], "lines": written[0][2], "called": lines[:4]}
            write_event("rewritten", **facts, arguments=leaves)
        return row == _ROW or calls == _CALLS

    later_calls.watch_calls(executable, check_later_call)


def _is_laid_out_alike(argument: Any, result: Any) -> bool:
    one, other = getattr(argument, "sharding", None), getattr(result, "sharding", None)
    if one is None or other is None or len(one.device_set) < 2:
        return False
    return bool(one.is_equivalent_to(other, len(argument.shape)))


def _describe_argument(name: str, one: Any) -> dict[str, Any]:
    held = bytes_per_device(one, one.sharding)
    return {"name": name, "shape": list(one.shape), "dtype": str(one.dtype), "held": held}
