"""Constraints that make an array whole along a mesh axis, though it was split over it before and is cut again after.

An activation whose constraint names another dimension's axis, or none, is gathered at the constraint, and the next
product takes each device's slice of it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shardlint.run.rematerialised import format_groups, is_offset_by_device
from shardlint.verify.facts import Line
from shardlint.verify.inside.hlo import shapes
from shardlint.verify.inside.hlo.axes import Axes
from shardlint.verify.inside.hlo.lines import Lines
from shardlint.verify.inside.hlo.module import Instruction, Module

_CARRY = frozenset(("copy", "bitcast", "reshape", "transpose", "convert"))


def find_forced_gathers(module: Module, lines: Lines, mesh: Mapping[str, int]) -> Iterator[tuple[str, Line, int]]:
    """Each such array: its type, shape and the axes, the line of the constraint, and its bytes when gathered."""
    axes = Axes(mesh)
    for computation in module.computations.values():
        for one in computation:
            if one.opcode != "all-gather":
                continue
            constraint, last = _find_constraint(one)
            if constraint is None:
                continue
            users = last.computation.users_by_name.get(last.name, [])
            cuts = [user for user in users if user.opcode == "dynamic-slice" and is_offset_by_device(user)]
            # A gradient that comes by rows and is wanted by columns goes that way: the constraint leaves nothing out.
            back = "transpose(" in one.op_name
            if not cuts or (back and not any(_is_sliced_along_gather(one, user) for user in cuts)):
                continue
            own, inner = lines.lines_of_instruction(constraint)
            names, _ = axes.axes_of_groups(format_groups(one))
            shape = shapes.parse_arrays(one.shape)[0]
            text = (
                f"{shape}, replicated along {' and '.join(map(repr, names))}" if names else f"{shape} whole"
            )
            yield text, own or inner or Line(), shape.byte_count


def _is_sliced_along_gather(gather: Instruction, cut: Instruction) -> bool:
    """Return whether an array is sliced along a dimension that it was gathered along."""
    whole, part = shapes.parse_arrays(gather.shape)[0].dims, shapes.parse_arrays(cut.shape)[0].dims
    if len(whole) != len(part):
        return True
    return any(at < len(whole) and whole[at] != part[at] for at in gather.attribute_integers("dimensions"))


def _find_constraint(gather: Instruction) -> tuple[Instruction | None, Instruction]:
    """The constraint that a gathered array goes to by itself, if any, and the last before it is used."""
    one, found = gather, None
    for _ in range(8):
        if "sharding_constraint" in one.op_name:
            found = one
        users = one.computation.users_by_name.get(one.name, [])
        if len(users) != 1 or users[0].opcode not in _CARRY:
            break
        one = users[0]
    return found, one
