"""Arrays, sizes, lines and collectives as text."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path

from shardlint.verify.facts import Collective, Line, Program


def array_text(dtype: str, shape: Sequence[int]) -> str:
    """An array's dtype and shape as in compiler output: `f32[1024,4096]`."""
    short = {"bfloat16": "bf16", "bool": "pred", "uint": "u", "int": "s", "float": "f", "complex": "c"}
    for long, brief in short.items():
        if dtype.startswith(long):
            dtype = brief + dtype[len(long) :]
            break
    return f"{dtype}[{','.join(map(str, shape))}]"


def size_text(count: float) -> str:
    """A number of bytes with a unit: `16.0 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def bytes_text(expected: int, actual: int) -> str:
    """Bytes a device was to hold and does, and their ratio: `2.0 MiB -> 16.0 MiB/device (8x)`."""
    factor = f" ({actual / expected:.3g}x)" if expected else ""
    return f"{size_text(expected)} -> {size_text(actual)}/device{factor}"


def collective_text(collective: Collective, source: bool = False) -> str:
    """A collective as one line: `all-gather 4.0 MiB x 80 over fsdp at model.py:5 in mlp`."""
    times = " x ?" if collective.trips is None else f" x {collective.trips}" if collective.trips != 1 else ""
    over = ", ".join(collective.axes) or f"{collective.group} devices"
    text = f"{collective.kind} {size_text(collective.bytes)}{times} over {over} at {line_text(collective.line)}"
    if collective.of:
        text += f", of {collective.of}"
    written = source_text(collective.line) if source else ""
    return f"{text}:  {written}" if written else text


def line_text(line: Line) -> str:
    """A line as a person wants it: relative to the working directory where it lies below it."""
    if not line.file:
        return "no line"
    path = Path(line.file)
    try:
        shown = path.relative_to(Path.cwd())
    except (OSError, ValueError):  # the program may have removed its folder
        shown = path
    function = line.function.rpartition("<locals>.")[2]
    return f"{shown}:{line.line}" + (f" in {function}" if function and function != "<module>" else "")


def source_text(line: Line) -> str:
    """The text of a source line, without the blanks around it; "" where it cannot be read."""
    return linecache.getline(line.file, line.line).strip() if line.file else ""


def largest_moves(program: Program, most: int = 5) -> list[str]:
    """The collectives of a program for a report, largest first, those of one line together; the first line
    tells the sum. Empty for a program that moves nothing.
    """
    groups: dict[tuple[object, ...], list[Collective]] = {}
    for one in program.collectives:
        groups.setdefault((one.kind, one.axes, one.line.file, one.line.line), []).append(one)
    ordered = sorted(groups.values(), key=lambda group: sum(one.moved_bytes for one in group), reverse=True)
    if not ordered:
        return []
    lines = [f"moves {size_text(program.moved_bytes)} per call on each device"]
    for group in ordered[:most]:
        first = max(group, key=lambda one: one.moved_bytes)
        again = f" (and {len(group) - 1} more like it)" if len(group) > 1 else ""
        moved = size_text(sum(one.moved_bytes for one in group))
        lines.append(f"  {moved}  {collective_text(first)}{again}")
    if len(ordered) > most:
        rest = size_text(sum(one.moved_bytes for group in ordered[most:] for one in group))
        lines.append(f"  {rest}  at {len(ordered) - most} more (all are in --output-format json)")
    return lines
