"""Places counted by a running sum of a device's own rows, as those of tokens in the buffer of an expert are."""

from __future__ import annotations

from .dims import Part
from .flat import LOOP, Flat, Op
from .sink import quiet
from .values import GATHER, MOVE, REDUCE, SCATTER, TYPES, Region, axes_of

_RUNNING = frozenset(("cumsum", "cumlogsumexp", "cumprod"))
_COUNTED = TYPES | {LOOP, "mul", "add", "sub", "reduce_sum", "select_n", "squeeze", "dot_general", "slice"}
_TESTED = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
_WRITES = frozenset(("scatter", "scatter-add", "scatter_add"))
_HANDED = TYPES | {LOOP, "mul", "div", "select_n", "transpose", "squeeze"}
_MOST = 400


def counts_places(number: int, ops: Flat) -> bool:
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
            if op.name == "convert_element_type" and ops.kind(op.gives[0]) in "iu":
                found = True
            elif op.name in _COUNTED:
                waiting += op.gives
            elif op.name not in _TESTED:
                return False
    return found


@quiet
def slots(ops: Flat, known: dict[int, Part], region: Region) -> None:
    """Tell of places counted so in a buffer that is added up over the devices: rows of several come to one place."""
    if region.back:
        return
    for op in ops.ops:
        if op.name not in _WRITES or op.takes[0] is None or op.takes[1] is None or op.takes[2] is None:
            continue
        # What the sum over devices finds written by several.
        axes = _added_up(op.gives[0], ops) & known.get(op.takes[2], Part()).axes & set(region.sizes)
        if not axes:
            continue
        counter = None
        for one in sorted(ops.behind(op.takes[1])):
            made = ops.makers.get(one)
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
            lines = counter.at or region.lines(counter.eqn)
            written = (op.at or region.lines(op.eqn))[:1]
            region.tell("own-slots", counter.eqn, lines, axes=sorted(axes), written=written)


def _added_up(number: int, ops: Flat) -> set[str]:
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
            elif op.name in _HANDED or _plus(op, ops):
                waiting += op.gives
    return found


def _plus(op: Op, ops: Flat) -> bool:
    return op.name in ("add", "add_any") and all(ops.shape(one) == ops.shape(op.gives[0]) for one in op.takes)
