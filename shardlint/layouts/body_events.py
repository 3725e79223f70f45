"""Events in one body mapped by shard_map: its collectives, and mistakes that a later collective may correct."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.layouts.values import Frame
    from shardlint.layouts.violation import Violation


@dataclass(frozen=True)
class Doubt:
    """A contract that is broken unless the body communicates over some axes; `caller` is the call it is noted in."""

    violation: Violation
    axes: frozenset[str]
    caller: Frame


@dataclass(eq=False)
class BodyEvents:
    """The events of a body, in their order."""

    collectives: dict[str, set[str]] = field(default_factory=dict)
    """The names of the collectives that run over each axis."""
    is_open: bool = False
    """Whether code that is not in sight, or one over axes that are not known, may communicate."""
    doubts: list[Doubt] = field(default_factory=list)
    is_weighted: bool = False
    """Whether it takes the logarithm of a sum of exponentials, by which softmaxes of pieces are weighted."""

    def note_collective(self, axes: tuple[str, ...] | None, name: str) -> None:
        """Note a collective; its axes may not be known."""
        self.is_open |= axes is None
        for axis in axes or ():
            self.collectives.setdefault(axis, set()).add(name)

    def collectives_over(self, axes: frozenset[str]) -> frozenset[str]:
        """The names of the collectives that run over some of these axes."""
        return frozenset(name for axis in axes for name in self.collectives.get(axis, ()))

    def add_inner(self, inner: BodyEvents) -> None:
        """Note the collectives of a body that is mapped in this one."""
        self.is_open |= inner.is_open
        for axis, names in inner.collectives.items():
            self.collectives.setdefault(axis, set()).update(names)
