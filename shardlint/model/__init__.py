"""Model of a whole program: names, traced regions, meshes, specs, contexts and the use of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardlint.model.program import Program

__all__ = ["Program"]


def __getattr__(name: str) -> Any:
    """The program, imported when it is asked for: it needs all of the model, and many files no more than its names."""
    if name != "Program":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shardlint.model.program import Program

    return Program
