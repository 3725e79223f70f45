"""A project's own names for what the libraries do, as its settings give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OwnNames:
    """Dotted names of functions that are known by what the settings say of them, not by their text."""

    jits: frozenset[str] = frozenset()
    """What traces the function it is given, as `jax.jit` does."""
    meshes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What returns a `jax.sharding.Mesh`, with the names of its axes in order."""


NO_OWN_NAMES = OwnNames()
