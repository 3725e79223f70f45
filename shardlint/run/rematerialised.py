"""Arrays the partitioner made whole on every device only to cut them again: involuntary rematerialisation.

The compiler says so on standard error, unless the program turned its messages off or caught them. The
partitioned program itself shows it: gathers until the array is whole, and all that is done with the whole
is to take the slice that belongs to this device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shardlint.verify.facts import Line
from shardlint.verify.inside.hlo import shapes
from shardlint.verify.inside.hlo.axes import Axes
from shardlint.verify.inside.hlo.lines import Lines
from shardlint.verify.inside.hlo.module import Instruction, Module

_CARRY = frozenset(("copy", "bitcast", "reshape", "transpose", "convert"))


def gathered_to_be_cut(
    module: Module, lines: Lines, mesh: Mapping[str, int]
) -> Iterator[tuple[str, Line, int]]:
    """Each such array: its type and shape, the line it comes from, and its bytes when whole."""
    axes = Axes(mesh)
    for computation in module.computations.values():
        for one in computation:
            if one.opcode != "all-gather":
                continue
            users = computation.users_by_name.get(one.name, [])
            if not users or any(user.opcode != "dynamic-slice" for user in users):
                continue
            if not all(is_offset_by_device(user) for user in users):
                continue
            if _gathered_device_count(one, axes) < axes.devices:
                continue
            own, inner = lines.lines_of_instruction(one)
            shape = shapes.parse_arrays(one.shape)[0]
            yield str(shape), own or inner or Line(), shape.byte_count


def _gathered_device_count(instruction: Instruction, axes: Axes) -> int:
    """How many devices' parts a gather, with those right before it, brings together."""
    total = 1
    current: Instruction | None = instruction
    while current is not None and (current.opcode == "all-gather" or current.opcode in _CARRY):
        if current.opcode == "all-gather":
            total *= axes.axes_of_groups(format_groups(current))[1]
        name, _ = current.parse_operands()[0]
        current = current.computation.instructions.get(name)
    return total


def format_groups(instruction: Instruction) -> str:
    """The devices that a collective brings together, as the text has them."""
    text = instruction.attributes_text
    at = text.find("replica_groups=")
    start = at + len("replica_groups=")
    if text.startswith("mesh[", start):
        return text[start : text.find("}", text.find("{", start)) + 1]
    return instruction.attribute_text("replica_groups")


def is_offset_by_device(cut: Instruction) -> bool:
    """Return whether a slice begins at an offset computed from the device's index."""
    seen: set[str] = set()
    names = [name for name, _ in cut.parse_operands()[1:]]
    while names:
        name = names.pop()
        one = cut.computation.instructions.get(name)
        if one is None or name in seen:
            continue
        if one.opcode == "partition-id":
            return True
        seen.add(name)
        if len(seen) > 64:
            return False
        names += (
            [operand for operand, _ in one.parse_operands()] if one.opcode not in ("constant", "parameter") else []
        )
    return False
