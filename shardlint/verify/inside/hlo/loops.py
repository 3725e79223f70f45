"""How often each computation of a module runs in one call of it."""

from __future__ import annotations

import re

from shardlint.verify.inside.hlo.flow import Flow
from shardlint.verify.inside.hlo.module import Computation, Instruction, Module

_KNOWN = re.compile(r'known_trip_count"?[:=]\s*\{"?n"?[:=]\s*"?(\d+)')


def computation_runs(module: Module, flow: Flow) -> dict[str, int | None]:
    """How often each computation that is reached runs; None inside a loop whose count is not known.

    Of a conditional every branch counts as taken: which one is, is known only when it runs.
    """
    if module.entry is None:
        return {}
    callers: dict[str, list[Instruction]] = {}
    loops: set[int] = set()
    for computation in module.computations.values():
        for one in computation:
            if one.opcode not in _QUIET:
                for name in one.called_computations():
                    callers.setdefault(name, []).append(one)
                if one.opcode == "while":
                    loops.add(id(one))
    flow.callers = callers
    found: dict[str, int | None] = {}

    def count_runs(computation: Computation) -> int | None:
        if computation.name in found:
            return found[computation.name]
        found[computation.name] = 0  # no computation calls itself
        total: int | None = 1 if computation is module.entry else 0
        for one in callers.get(computation.name, ()):
            times = count_runs(one.computation)
            if times != 0:
                trips = trip_count(one, module, flow) if id(one) in loops else 1
                if trips is not None and one.attribute_text("condition").lstrip("%") == computation.name:
                    trips += 1  # asked once more, for the end
                total = None if None in (total, times, trips) else total + times * trips  # type: ignore[operator]
        found[computation.name] = total
        return total

    for computation in module.computations.values():
        count_runs(computation)
    return {name: times for name, times in found.items() if times != 0}


# Most instructions by far call nothing; of those that do, these call only scalar functions.
_QUIET = frozenset(
    "parameter constant get-tuple-element tuple add multiply subtract divide broadcast convert reshape copy "
    "transpose dot bitcast slice dynamic-slice dynamic-update-slice concatenate select compare iota pad "
    "reduce reduce-window sort scatter select-and-scatter all-reduce reduce-scatter all-gather negate "
    "exponential maximum minimum tanh rsqrt power log gather partition-id".split()
)


def trip_count(loop: Instruction, module: Module, flow: Flow) -> int | None:
    """How often the body of a `while` runs, or None where that is not known.

    The compiler's own count is taken where it stands; before the pass that finds it, and on TPU, the
    condition is read: a counter, compared with a constant, that the body moves by a constant.
    """
    known = _KNOWN.search(loop.attributes_text)
    if known is not None:
        return int(known[1])
    condition = module.computations.get(loop.attribute_text("condition").lstrip("%"))
    body = module.computations.get(loop.attribute_text("body").lstrip("%"))
    if condition is None or body is None or condition.root_instruction is None or body.root_instruction is None:
        return None
    test, scope = flow.unwrap_fusion(condition.root_instruction, None)
    if test.opcode != "compare" or len(test.parse_operands()) != 2:
        return None
    direction = test.attribute_text("direction")
    values = [flow.trace_value(name, element, test.computation, scope) for name, element in test.parse_operands()]
    if values[0] is None or values[1] is None:
        return None
    if values[0][0] == "constant":
        values.reverse()
        direction = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    (kind, index), (_, limit) = values[0], values[1]
    if kind != "carry":
        return None
    if values[1][0] == "carry":
        limit_value = flow.initial_carry(loop, values[1][1])
        if limit_value is None or not flow.is_carry_unchanged(body, values[1][1]):
            return None
        limit = limit_value
    start, step = flow.initial_carry(loop, index), flow.carry_increment(body, index)
    if start is None or not step:
        return None
    span = {"LT": limit - start, "LE": limit - start + step, "GT": limit - start, "GE": limit - start + step}
    if direction == "NE":
        return (
            (limit - start) // step if (limit - start) % step == 0 and (limit - start) * step >= 0 else None
        )
    if direction not in span or (step > 0) != (direction in ("LT", "LE")):
        return None
    return max(0, -(-span[direction] // step))
