"""The collectives of a module: what, over which axes, how large, how often, from which line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shardlint.verify.facts import Collective, Line
from shardlint.verify.inside.hlo import shapes
from shardlint.verify.inside.hlo.axes import Axes
from shardlint.verify.inside.hlo.flow import CARRY, Flow
from shardlint.verify.inside.hlo.lines import Lines
from shardlint.verify.inside.hlo.module import Instruction, Module

_KINDS = {
    "all-gather": "all-gather",
    "all-reduce": "all-reduce",
    "reduce-scatter": "reduce-scatter",
    "all-to-all": "all-to-all",
    "ragged-all-to-all": "all-to-all",
    "collective-permute": "collective-permute",
    "collective-broadcast": "collective-broadcast",
}
_STEPS = 6


@dataclass(frozen=True)
class FoundCollective:
    """A collective and the instruction it is."""

    collective: Collective
    instruction: Instruction


def kind_of(instruction: Instruction) -> str:
    """The kind of collective an instruction starts, or an empty string."""
    return _KINDS.get(instruction.opcode.removesuffix("-start"), "")


def find_collectives(
    module: Module,
    flow: Flow,
    lines: Lines,
    axes: Axes,
    runs: Mapping[str, int | None],
    names: Mapping[int, str],
) -> list[FoundCollective]:
    """Every collective of the computations that run, in the module's order.

    `names` gives the text of an argument for its parameter number.
    """
    found: list[FoundCollective] = []
    copies: set[tuple[object, ...]] = set()
    for computation in module.computations.values():
        if computation.name not in runs:
            continue
        fused = any(one.opcode in ("fusion", "async-start") for one in flow.callers.get(computation.name, ()))
        for one in computation:
            kind = kind_of(one)
            if not kind:
                continue
            if fused:
                # TPU puts up to three copies of one collective into the fusions that wait for it. Only
                # there: all collectives a program writes itself may share one channel.
                key = (one.attribute_text("channel_id"), kind, one.shape, one.op_name, one.frame_number)
                if key[0] and key in copies:
                    continue
                copies.add(key)
            found.append(
                FoundCollective(_make_collective(one, kind, flow, lines, axes, runs[computation.name], names), one)
            )
    return found


def _make_collective(
    instruction: Instruction,
    kind: str,
    flow: Flow,
    lines: Lines,
    axes: Axes,
    trips: int | None,
    names: Mapping[int, str],
) -> Collective:
    pairs = instruction.attribute_text("source_target_pairs")
    over, group = axes.axes_of_pairs(pairs) if pairs else axes.axes_of_groups(_replica_groups(instruction))
    if kind == "all-reduce" and "all-reduce-scatter" in instruction.computation.name:
        kind = "reduce-scatter"
    small = _operand_shapes(instruction, flow)
    large = small
    if kind == "all-gather":
        large = shapes.parse_arrays(instruction.shape) if not instruction.opcode.endswith("-start") else [
            shapes.Shape(shape.dtype, _gathered_dimensions(shape.dims, instruction, group)) for shape in small
        ]  # fmt: skip
    large = large or shapes.parse_arrays(instruction.shape)
    text = str(max(large, key=lambda shape: shape.byte_count)) if large else ""
    if len(large) > 1:
        text += f" and {len(large) - 1} more"
    of = _gathered_argument(instruction, flow, names) if kind == "all-gather" else ""
    line = line_of(instruction, lines, flow, by_use=bool(of))
    return Collective(kind, over, group, text, sum(shape.byte_count for shape in large), trips, line, of)


def _replica_groups(instruction: Instruction) -> str:
    """The text of `replica_groups`, whose mesh form goes on behind a blank or a comma."""
    text = instruction.attributes_text
    at = text.find("replica_groups=")
    if at < 0:
        return ""
    start = at + len("replica_groups=")
    if not text.startswith("mesh[", start):
        return instruction.attribute_text("replica_groups")
    end = text.find("}", text.find("{", start))
    return text[start : end + 1]


def _operand_shapes(instruction: Instruction, flow: Flow) -> list[shapes.Shape]:
    """The shapes of what goes in."""
    found: list[shapes.Shape] = []
    for name, element in instruction.parse_operands():
        made = flow.find_instruction(name, instruction.computation)
        if made is not None:
            parts = shapes.parse_arrays(made.shape)
            found += parts if element is None else parts[element : element + 1]
    return found


def _gathered_dimensions(dims: tuple[int, ...], instruction: Instruction, group: int) -> tuple[int, ...]:
    along = instruction.attribute_integers("dimensions")
    return tuple(size * group if along and at == along[0] else size for at, size in enumerate(dims))


def _gathered_argument(instruction: Instruction, flow: Flow, names: Mapping[int, str]) -> str:
    """The argument an all-gather is of: all of its operands', where they agree."""
    found = {
        flow.argument_number(name, element, instruction.computation) for name, element in instruction.parse_operands()
    }
    number = found.pop() if len(found) == 1 else None
    return "" if number is None else names.get(number, "")


def line_of(instruction: Instruction, lines: Lines, flow: Flow, by_use: bool = False) -> Line:
    """The user's line of an instruction: its own, else that of the nearest that uses what it makes, else of
    the nearest that makes what it uses, else the library's line it comes from.

    `by_use`: first that of what uses it. An argument is gathered for the operation that needs it; the
    gather itself has no line, or that of a `scan` around it.
    """
    own, inner = lines.lines_of_instruction(instruction)
    if own is not None and not by_use:
        return own
    if by_use:
        used = _line_of_use(instruction, lines)
        if used is not None:
            return used
        if own is not None:
            return own
    if inner is not None:
        return inner
    return (
        _nearest_line(instruction, lines, _users_of_instruction)
        or _nearest_line(instruction, lines, flow.producers_of_operands)
        or Line()
    )


def _users_of_instruction(instruction: Instruction) -> list[Instruction]:
    return instruction.computation.users_by_name.get(instruction.name, [])


def _line_of_use(instruction: Instruction, lines: Lines) -> Line | None:
    """The line of the first operation that does more with a value than to carry it on; else of one that
    carries it.
    """
    carried: Line | None = None
    seen, level = {instruction.name}, [instruction]
    for _ in range(_STEPS):
        users = [user for made in level for user in _users_of_instruction(made) if user.name not in seen]
        for user in users:
            seen.add(user.name)
            own, _ = lines.lines_of_instruction(user)
            if own is not None and user.opcode not in CARRY:
                return own
            carried = carried or own
        level = [user for user in users if user.opcode in CARRY]
    return carried


def _nearest_line(
    instruction: Instruction, lines: Lines, neighbours: Callable[[Instruction], list[Instruction]]
) -> Line | None:
    """The user's line of the nearest instruction in one direction; else a library's."""
    far: Line | None = None
    seen, level = {instruction.name}, [instruction]
    for _ in range(_STEPS):
        level = [other for made in level for other in neighbours(made) if other.name not in seen]
        for other in level:
            seen.add(other.name)
            own, inner = lines.lines_of_instruction(other)
            if own is not None:
                return own
            far = far or inner
    return far


def argument_names(module: Module) -> dict[int, str]:
    """Return the names of the module's own parameters: `p['w1']`."""
    if module.entry is None:
        return {}
    return {number: one.op_name for number, one in module.entry.parameters_by_number.items()}
