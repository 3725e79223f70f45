"""Findings of a run, as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shardlint.run.dumps import Compiled
from shardlint.verify.facts import Array, Line


@dataclass(frozen=True)
class RunFinding:
    """One finding.

    `kind` is a word of the table in docs/run.md, `code` the rule of `check` for it, where there is one.
    `message` is one sentence, `arrays` the leaves it is about (`p['w1'] f32[512,1024]`), `advice` what
    to write instead, `bytes` what one device holds of them. `see` are other lines that have part in it,
    `tests` those of pytest in which it was first seen. `over` are the mesh axes that what is gathered inside a function
    was sharded over.
    """

    kind: str
    function: str
    line: Line
    message: str
    arrays: tuple[str, ...] = ()
    advice: str = ""
    bytes: int = 0
    code: str = ""
    see: tuple[tuple[str, Line], ...] = ()
    tests: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


@dataclass(frozen=True)
class Moved:
    """Data that one line of the source moves in one call of a function, on each device.

    `trips` are how often its collectives run, each different count once; None is a loop whose count is not
    known, of which one round is counted.
    """

    line: Line
    function: str
    kind: str
    axes: tuple[str, ...]
    group: int
    bytes: int
    trips: tuple[int | None, ...]
    arrays: tuple[str, ...]
    of: tuple[str, ...]


@dataclass
class Facts:
    """Compilations and findings of a run.

    `functions` holds the compilations of each function of the user's, and of what else ran on several
    devices; `compiled` counts all.
    """

    functions: list[list[Compiled]] = field(default_factory=list)
    found: list[RunFinding] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compiled: int = 0
    seconds: float = 0.0
    observed: int = 0
    """The most devices that arrays were seen on."""
    built: list[dict[str, int]] = field(default_factory=list)
    """The meshes of several devices that the program built."""
    below: int = 0
    """How many findings were left out because what they are about is small."""

    @property
    def distinct_meshes(self) -> list[dict[str, int]]:
        """The meshes programs were partitioned for, each once."""
        seen = {tuple(one.program.mesh.items()): None for each in self.functions for one in each}
        return [dict(mesh) for mesh in seen if mesh]

    @property
    def device_count(self) -> int:
        """The most devices a function ran on."""
        return max((self.observed, *(one.device_count for each in self.functions for one in each)))


def describe_leaves(leaves: Iterable[Array]) -> tuple[str, ...]:
    """Leaves as findings name them, each once."""
    return tuple(dict.fromkeys(f"{leaf.where} {leaf.array}" for leaf in leaves))


def split_axes(leaves: Iterable[Array]) -> set[str]:
    """The mesh axes that some of the arrays are split over, as far as specs tell."""
    return {name for leaf in leaves for names in leaf.axes or () for name in names}


def count_text(leaves: Sequence[Array]) -> str:
    """`1 array`, `3 arrays`."""
    return "1 array" if len(leaves) == 1 else f"{len(leaves)} arrays"


def bytes_per_device(leaves: Iterable[Array]) -> int:
    """Bytes one device holds of them."""
    return sum(leaf.bytes for leaf in leaves)


def bytes_when_whole(leaves: Iterable[Array]) -> int:
    """Bytes of them when whole."""
    return sum(leaf.bytes_whole for leaf in leaves)
