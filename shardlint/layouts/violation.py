"""A contract of a library that a call breaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from shardlint.model.values import Place
from shardlint.source.lazy import dataclass


@dataclass(frozen=True)
class Violation:
    """A contract of a library that a call breaks.

    kind: the name of the contract, such as "spec.rank".
    place: the expression that breaks it.
    said: what a message needs, by name.
    calls: the calls that lead there, the outermost first.
    """

    kind: str
    place: Place
    said: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[Place, ...] = ()
    mapped: int | None = None
    """In what shard_map or pmap runs on each device, how many of the calls lead to that."""
    body: Place | None = None
    """The function that shard_map or pmap maps there."""
    root: Place | None = None
    """The function that ran by itself, as nothing calls it here."""
    assumed: bool = False
    """Whether it rests on a default, which a caller that is not in sight may replace."""
    certain: bool = True
    """Whether the place surely runs once the program comes to the first of the calls: no condition that is not known
    stands between, and no option is taken for its default."""
    by_default: bool = False
    """Whether it is broken where the options of the program have their defaults."""
    inside: tuple[Place, ...] = ()
    """Where the place is a call: the calls that it leads to in other files, and what breaks the contract there."""

    @property
    def call_path(self) -> tuple[Place, ...]:
        """The calls and the place, from the function on that shard_map or pmap maps, if one does."""
        return (*self.calls, self.place, *self.inside)[self.mapped or 0 :]

    @property
    def quoted_details(self) -> dict[str, str]:
        """Return the details of the violation, each as code in a message."""
        return {name: f"`{text}`" for name, text in self.said.items()}

    @property
    def quoted_axes(self) -> str:
        """The axes that were said, each as code in a message."""
        return " and ".join(f"`{axis}`" for axis in self.said["axes"].split(", "))
