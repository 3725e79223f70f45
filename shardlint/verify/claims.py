"""Claims of a fixture about a compiled program's communication and memory, and their violations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardlint.verify.facts import Collective, Program
from shardlint.verify.report import Failure
from shardlint.verify.texts import collective_text, size_text

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
    def parse_claim(cls, text: str) -> Claim:
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

    def applies_to(self, collective: Collective) -> bool:
        """Return whether the claim applies to a collective."""
        return self.kind in (ANY, collective.kind) and set(self.axes) <= set(collective.axes)

    def missing_axis(self, mesh: Mapping[str, int]) -> str | None:
        """An axis it names that the mesh has not."""
        return next((name for name in self.axes if name not in mesh), None)

    def reason_unbreakable(self, mesh: Mapping[str, int]) -> str:
        """Why no program on this mesh could break it; "" where one could."""
        if all(size == 1 for size in mesh.values()):
            return "the mesh has one device"
        thin = [name for name in self.axes if mesh.get(name) == 1]
        return f"axis {thin[0]!r} has size 1 on this mesh" if thin else ""


def check_forbidden(program: Program, forbid: Iterable[Claim]) -> list[Failure]:
    """A failure for each claim that a collective breaks."""
    failures = []
    for claim in forbid:
        if (wrong := _unknown_axis_failure(claim, program)) is not None:
            failures.append(wrong)
            continue
        broken = [one for one in program.collectives if claim.applies_to(one)]
        if broken:
            moved = f"{len(broken)} found, moving {size_text(sum(one.moved_bytes for one in broken))} per call"
            failures.append(
                Failure(
                    "forbidden",
                    _list_collectives(f"forbidden {claim.text!r}: {moved}", broken),
                    path=claim.text,
                )
            )
    return failures


def check_budget(program: Program, budget: Mapping[Claim, int]) -> list[Failure]:
    """A failure for each budget (bytes moved on one device in one call) that is not kept."""
    failures = []
    for claim, most in budget.items():
        if (wrong := _unknown_axis_failure(claim, program)) is not None:
            failures.append(wrong)
            continue
        spent = [one for one in program.collectives if claim.applies_to(one)]
        moved = sum(one.moved_bytes for one in spent)
        if moved > most:
            text = (
                f"{size_text(moved)} are moved per call, more than the budget for {claim.text!r}, "
                f"{size_text(most)}"
            )
            if any(one.trips is None for one in spent):
                text += " (loops of unknown length counted once)"
            failures.append(
                Failure(
                    "budget",
                    _list_collectives(text, spent),
                    path=claim.text,
                    bytes_expected=most,
                    bytes_actual=moved,
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


def _unknown_axis_failure(claim: Claim, program: Program) -> Failure | None:
    lost = claim.missing_axis(program.mesh)
    if lost is None:
        return None
    known = ", ".join(program.mesh)
    return Failure("fixture", f"{claim.text!r} names axis {lost!r}; the mesh has {known}", path=claim.text)


def _list_collectives(text: str, collectives: Sequence[Collective]) -> str:
    """A message with the largest collectives below it."""
    largest = sorted(collectives, key=lambda one: one.moved_bytes, reverse=True)
    lines = [collective_text(one, source=True) for one in largest[:_SHOWN]]
    if len(largest) > _SHOWN:
        lines.append(f"and {len(largest) - _SHOWN} more")
    return "\n".join([text, *lines])
