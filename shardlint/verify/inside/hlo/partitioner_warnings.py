"""Unrequested work of the partitioner: rematerialization and indivisible shardings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from shardlint.verify.facts import Line, Warned
from shardlint.verify.inside.hlo import shapes
from shardlint.verify.inside.hlo.axes import Axes, parse_tiling
from shardlint.verify.inside.hlo.lines import Lines
from shardlint.verify.inside.hlo.module import Module, read_instruction

_SAID = re.compile(r"Involuntary full rematerialization\..*? from sharding (\{.*?\}) to (\{.*?\}) [^%]*(%.*)")


def find_rematerialised(messages: str, lines: Lines, axes: Axes) -> list[Warned]:
    """The arrays the compiler said (on standard error) it made whole on every device, each once. Bytes are
    those of the whole array.
    """
    found: dict[Warned, None] = {}
    for match in _SAID.finditer(messages):
        source, target, said = match.groups()
        one = read_instruction(said)
        # Of parameters that are not there the partitioner only asks what they would cost.
        if one is None or one.name.startswith("fake_parameter"):
            continue
        own, inner = lines.lines_of_instruction(one)
        # The message has the shape a device holds.
        shape = shapes.parse_arrays(one.shape)[0]
        tiles = parse_tiling(source)
        pieces = tiles[0][: len(shape.dims)] if tiles else [1] * len(shape.dims)
        whole = shapes.Shape(shape.dtype, tuple(a * b for a, b in zip(shape.dims, pieces, strict=True)))
        ways = [_sharding_text(text, len(shape.dims), axes) for text in (source, target)]
        message = f"{whole} is replicated on every device to go from {ways[0]} to {ways[1]}"
        found[Warned("rematerialised", message, own or inner or Line(), whole.byte_count)] = None
    return list(found)


def find_indivisible(before: Module, lines: Lines, axes: Axes) -> list[Warned]:
    """The constraints of a program on a dimension that its axes do not divide: the compiler pads it. Bytes
    are those of the padded part on one device.
    """
    found: dict[Warned, None] = {}
    for computation in before.computations.values():
        for one in computation:
            if not one.op_name.endswith("sharding_constraint"):
                continue
            parts, text = shapes.parse_arrays(one.shape), one.attribute_text("sharding")
            tiles = parse_tiling(text) if text else None
            if tiles is None or len(parts) != 1 or one.shape.startswith("("):
                continue
            found |= dict.fromkeys(_padded_dimensions(parts[0], tiles[0], text, axes, lines.lines_of_instruction(one)))
    return list(found)


def _padded_dimensions(
    shape: shapes.Shape, pieces: list[int], text: str, axes: Axes, places: tuple[Line | None, Line | None]
) -> Iterator[Warned]:
    for dim, size in enumerate(shape.dims):
        ways = pieces[dim] if dim < len(pieces) else 1
        if size % ways:
            names = axes.axes_of_sharding(text, len(shape.dims))
            over = "*".join(names[dim]) if names and names[dim] else "devices"
            held = math.prod(-(-size // ways) for size, ways in zip(shape.dims, pieces, strict=False))
            message = (
                f"dimension {dim} of {shape} is padded from {size} to {-(-size // ways) * ways}: the "
                f"constraint {_sharding_text(text, len(shape.dims), axes)} needs a multiple of {over} = {ways}"
            )
            count = math.ceil(held * shapes.bits_of_dtype(shape.dtype) / 8)
            yield Warned("indivisible", message, places[0] or places[1] or Line(), count)


def _sharding_text(sharding: str, rank: int, axes: Axes) -> str:
    """A sharding as a spec, `P('data', None)`, or as the compiler wrote it."""
    names = axes.axes_of_sharding(sharding, rank)
    if names is None:
        return sharding
    entries = [None if not one else one[0] if len(one) == 1 else one for one in names]
    while entries and entries[-1] is None:
        entries.pop()
    return f"P({', '.join(map(repr, entries))})"
