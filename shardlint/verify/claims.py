"""What a fixture claims of a compiled program's communication and memory, and what does not hold of it."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardlint.verify.facts import Collective, Line, Program
from shardlint.verify.report import Failure, size_text

KINDS = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)
ANY = "any"
_SHOWN = 3


@dataclass(frozen=True)
class Claim:
    """Collectives of a kind (`any`: of every kind) that run over all of these mesh axes, and maybe others."""

    text: str
    kind: str
    axes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Claim:
        """From `all_to_all`, `all_gather over model` or `any over data, model`.

        Raises `ValueError` for anything else.
        """
        match = re.fullmatch(r"\s*([A-Za-z_-]+)(?:\s+over\s+(.+?))?\s*", text)
        kind = match[1].lower().replace("_", "-") if match else ""
        if match is None or kind not in (*KINDS, ANY):
            known = ", ".join(name.replace("-", "_") for name in KINDS)
            raise ValueError(
                f"{text!r} is not a collective, such as 'all_gather over model'; the kinds are {known} and any"
            )
        axes = tuple(name for name in re.split(r"[\s,]+", match[2] or "") if name)
        return cls(text.strip(), kind, axes)

    def takes(self, collective: Collective) -> bool:
        """Whether it speaks of a collective."""
        return self.kind in (ANY, collective.kind) and set(self.axes) <= set(collective.axes)

    def lost(self, mesh: Mapping[str, int]) -> str | None:
        """An axis it names that the mesh has not."""
        return next((name for name in self.axes if name not in mesh), None)

    def idle(self, mesh: Mapping[str, int]) -> str:
        """Why no program on this mesh could break it; "" where one could."""
        if all(size == 1 for size in mesh.values()):
            return "the mesh has one device"
        thin = [name for name in self.axes if mesh.get(name) == 1]
        return f"axis {thin[0]!r} has size 1 on this mesh" if thin else ""


def check_forbidden(program: Program, forbid: Iterable[Claim]) -> list[Failure]:
    """A failure for each claim that a collective breaks."""
    failures = []
    for claim in forbid:
        if (wrong := _unknown(claim, program)) is not None:
            failures.append(wrong)
            continue
        broken = [one for one in program.collectives if claim.takes(one)]
        if broken:
            moved = f"{len(broken)} found, moving {size_text(sum(one.moved for one in broken))} per call"
            failures.append(
                Failure("forbidden", _listed(f"forbidden {claim.text!r}: {moved}", broken), path=claim.text)
            )
    return failures


def check_budget(program: Program, budget: Mapping[Claim, int]) -> list[Failure]:
    """A failure for each budget (bytes moved on one device in one call) that is not kept."""
    failures = []
    for claim, most in budget.items():
        if (wrong := _unknown(claim, program)) is not None:
            failures.append(wrong)
            continue
        spent = [one for one in program.collectives if claim.takes(one)]
        moved = sum(one.moved for one in spent)
        if moved > most:
            text = (
                f"{size_text(moved)} are moved per call, more than the budget for {claim.text!r}, "
                f"{size_text(most)}"
            )
            if any(one.trips is None for one in spent):
                text += " (loops of unknown length counted once)"
            failures.append(
                Failure(
                    "budget", _listed(text, spent), path=claim.text, bytes_expected=most, bytes_actual=moved
                )
            )
    return failures


def check_memory(program: Program, most: int) -> list[Failure]:
    """A failure where one call needs more bytes on a device."""
    if program.memory_bytes <= most:
        return []
    parts = [
        f"{name} {size_text(count)}"
        for name, count in (
            ("arguments", program.argument_bytes),
            ("outputs", program.output_bytes),
            ("temporaries", program.temporary_bytes),
            ("less aliased", program.alias_bytes),
        )
        if count
    ]
    text = f"more than memory_max ({size_text(most)}): {', '.join(parts)}"
    arrays = sorted(program.arrays, key=lambda one: one.bytes, reverse=True)[:_SHOWN]
    text += "".join(
        f"\n{one.where} {one.array}  {one.spec}  {size_text(one.bytes)}/device, {one.copies} copies"
        for one in arrays
    )
    failure = Failure("memory", text, "one call needs")
    failure.bytes_expected, failure.bytes_actual = most, program.memory_bytes
    return [failure]


def _unknown(claim: Claim, program: Program) -> Failure | None:
    lost = claim.lost(program.mesh)
    if lost is None:
        return None
    known = ", ".join(program.mesh)
    return Failure("fixture", f"{claim.text!r} names axis {lost!r}; the mesh has {known}", path=claim.text)


def _listed(text: str, found: Sequence[Collective]) -> str:
    """A message with the largest collectives below it."""
    largest = sorted(found, key=lambda one: one.moved, reverse=True)
    lines = [collective_text(one, source=True) for one in largest[:_SHOWN]]
    if len(largest) > _SHOWN:
        lines.append(f"and {len(largest) - _SHOWN} more")
    return "\n".join([text, *lines])


def collective_text(one: Collective, source: bool = False) -> str:
    """A collective as one line: `all-gather 4.0 MiB x 80 over fsdp at model.py:5 in mlp`."""
    times = " x ?" if one.trips is None else f" x {one.trips}" if one.trips != 1 else ""
    over = ", ".join(one.axes) or f"{one.group} devices"
    text = f"{one.kind} {size_text(one.bytes)}{times} over {over} at {line_text(one.line)}"
    if one.of:
        text += f", of {one.of}"
    written = source_text(one.line) if source else ""
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
    ordered = sorted(groups.values(), key=lambda group: sum(one.moved for one in group), reverse=True)
    if not ordered:
        return []
    lines = [f"moves {size_text(program.moved_bytes)} per call on each device"]
    for group in ordered[:most]:
        first = max(group, key=lambda one: one.moved)
        again = f" (and {len(group) - 1} more like it)" if len(group) > 1 else ""
        moved = size_text(sum(one.moved for one in group))
        lines.append(f"  {moved}  {collective_text(first)}{again}")
    if len(ordered) > most:
        rest = size_text(sum(one.moved for group in ordered[most:] for one in group))
        lines.append(f"  {rest}  at {len(ordered) - most} more (all are in --output-format json)")
    return lines
