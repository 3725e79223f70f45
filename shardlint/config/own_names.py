"""A project's own names for what the libraries do, as its settings give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from shardlint.source.lazy import dataclass


@dataclass(frozen=True)
class OwnNames:
    """Names declared in the settings: functions that compile like jit, functions that make meshes, mesh axes, banned
    names.
    """

    jits: frozenset[str] = frozenset()
    """What traces the function it is given, as `jax.jit` does."""
    meshes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What returns a `jax.sharding.Mesh`, with the names of its axes in order."""
    axes: tuple[str, ...] = ()
    """The names of all mesh axes there are; none: that is not said."""
    banned: Mapping[str, str] = field(default_factory=dict)
    """What is not to be used, or `module.*` for all of a module, and what to write instead."""

    @property
    def triggering_names(self) -> tuple[str, ...]:
        """Return the names that decide which rules run, and where. Projects with equal ones run the same rules."""
        return (*(["axis-names"] if self.axes else []), *sorted(self.banned))


NO_OWN_NAMES = OwnNames()
