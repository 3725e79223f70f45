"""Places counted by a running sum of a device's own rows, as those of tokens in the buffer of an expert are."""

from __future__ import annotations

from .event_sink import silence_errors
from .flat_operations import LOOP, FlatOperation, FlatRegion
from .sharded_dimensions import Part
from .values import GATHER, MOVE, REDUCE, SCATTER, TYPES, Region, axes_of

_RUNNING = frozenset(("cumsum", "cumlogsumexp", "cumprod"))
_COUNTED = TYPES | {LOOP, "mul", "add", "sub", "reduce_sum", "select_n", "squeeze", "dot_general", "slice"}
_TESTED = frozenset(("lt", "le", "gt", "ge"))
_WRITES = frozenset(("scatter", "scatter-add", "scatter_add"))
_HANDED = TYPES | {LOOP, "mul", "div", "select_n", "transpose", "squeeze"}
_MOST = 400


def is_counting_positions(number: int, ops: FlatRegion) -> bool:
    """Return whether a running sum is used only for whole numbers and tests: positions that each device counts for
    itself.
    """
    waiting, done, found = [number], set[int](), False
    while waiting and len(done) < _MOST:
        one = waiting.pop()
        if one in done:
            continue
        done.add(one)
        users = ops.users.get(one, [])
        if not users or one in ops.results:
            return False
        for op in users:
            if op.name == "convert_element_type" and ops.type_letter(op.gives[0]) in "iu":
                found = True
            elif op.name in _COUNTED:
                waiting += op.gives
            elif op.name in ("eq", "ne"):  # as one_hot has it
                found = True
            elif op.name not in _TESTED:
                return False
    return found


@silence_errors
def check_slots(ops: FlatRegion, known: dict[int, Part], region: Region) -> None:
    """Tell of places counted so in a buffer that is added up over the devices: rows of several come to one place."""
    if region.back:
        return
    for op in ops.ops:
        if op.name not in _WRITES or op.takes[0] is None or op.takes[1] is None or op.takes[2] is None:
            continue
        # What the sum over devices finds written by several.
        axes = _axes_added_over(op.gives[0], ops) & known.get(op.takes[2], Part()).splitting_axes & set(region.sizes)
        if not axes:
            continue
        counter = None
        for one in sorted(ops.values_behind(op.takes[1])):
            made = ops.operations_by_value.get(one)
            if made is None:
                continue
            if made.name in GATHER | MOVE | SCATTER | REDUCE | {"axis_index"} and axes & set(axes_of(made.eqn)):
                counter = None
                break
            if made.name in _RUNNING and made.takes[0] is not None:
                dims, at = known.get(made.takes[0], Part()).dims, made.params.get("axis", 0)
                if at < len(dims) and axes & dims[at]:
                    counter = counter or made
        if counter is not None:
            lines = counter.at or region.operation_lines(counter.eqn)
            written = (op.at or region.operation_lines(op.eqn))[:1]
            region.note_observation("own-slots", counter.eqn, lines, axes=sorted(axes), written=written)


def _axes_added_over(number: int, ops: FlatRegion) -> set[str]:
    """The axes over which a value is added up, past what keeps its places."""
    waiting, done, found = [number], set[int](), set[str]()
    while waiting and len(done) < _MOST:
        one = waiting.pop()
        if one in done:
            continue
        done.add(one)
        for op in ops.users.get(one, ()):
            if op.name in REDUCE - {"pmax", "pmin"}:
                found |= set(axes_of(op.eqn))
            elif op.name in _HANDED or _is_plus_one(op, ops):
                waiting += op.gives
    return found


def _is_plus_one(op: FlatOperation, ops: FlatRegion) -> bool:
    return op.name in ("add", "add_any") and all(
        ops.shape_of_value(one) == ops.shape_of_value(op.gives[0]) for one in op.takes
    )
