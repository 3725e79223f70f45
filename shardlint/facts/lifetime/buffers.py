"""Names and the buffers they hold, at one point of a function.

What a name holds is a buffer, an object of its own that other names may hold too; donating it marks it dead for
all of them. Where ways meet with different answers nothing more is known of a name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import field, replace
from typing import Literal

from shardlint.facts.lifetime.donating_calls import Argument, DonatingCall
from shardlint.facts.lifetime.reads import Reading, array_of_read
from shardlint.source.lazy import dataclass
from shardlint.syntax.nodes import walk_nodes

# What a name may hold where many ways meet is not followed.
_WAYS = 4
# A name, and the attributes and constant keys that lead from it to a part: ("state", "params", "[w]").
Path = tuple[str, ...]


class Buffer:
    """One array or tree of arrays, told apart from all others. `node` is the expression that made it, if seen.

    `source` is what it is the same array as, if that is one of jax's: `jnp.asarray(x)` of a numpy array is not.
    `ways` are what it may be that was alive where the ways met which tell it.
    """

    __slots__ = ("kind", "node", "source", "ways")

    def __init__(
        self,
        node: ast.expr | None,
        kind: Literal["made", "given", "iterated", "unknown"],
        source: tuple[Buffer, Path] | None = None,
        ways: tuple[tuple[Buffer, Path], ...] = (),
    ) -> None:
        self.node = node
        self.kind = kind
        self.source = source
        self.ways = ways


# A buffer, or a part of one.
Held = tuple[Buffer, Path]


@dataclass(frozen=True)
class Death:
    """A donation: by which call, as which argument. `must` is False where only some ways lead through it."""

    call: DonatingCall
    argument: Argument
    held: Held
    must: bool = True


@dataclass(frozen=True)
class Use:
    """A read of what was donated before."""

    node: ast.expr
    held: Held
    death: Death
    reading: Reading

    @property
    def path_below_donated(self) -> Path:
        """The attributes and keys that lead from what was donated to what is read."""
        if self.held[0] is not self.death.held[0]:
            return self.held[1]
        found = self.held[1][len(self.death.held[1]) :]
        return found[:-1] if array_of_read(self.node) is not self.node else found

    @property
    def is_repeated_call(self) -> bool:
        """True if the call that donated it is what reads it, in a later turn of its loop."""
        return any(part is self.node for part in walk_nodes(self.death.call.call))


@dataclass(frozen=True)
class Twice:
    """One buffer given twice to a donating call, as `donor` (donated) and as `other`."""

    call: DonatingCall
    donor: Argument
    other: Argument
    nodes: tuple[ast.expr, ast.expr]
    """The expressions in the call, the later one second."""
    held: Held


@dataclass
class BufferHistory:
    """Buffer events in a function."""

    uses: list[Use] = field(default_factory=list)
    twice: list[Twice] = field(default_factory=list)


def access_path(node: ast.expr) -> Path | None:
    """The path of a name, attribute or element with a constant key."""
    match node:
        case ast.Name():
            return (node.id,)
        case ast.Attribute():
            base = access_path(node.value)
            return (*base, node.attr) if base is not None else None
        case ast.Subscript(slice=ast.Constant(value=str() | int() as key)):
            base = access_path(node.value)
            return (*base, f"[{key}]") if base is not None else None
    return None


def is_nested_part(one: Held, two: Held) -> bool:
    """Return whether one of two parts of buffers holds the other."""
    length = min(len(one[1]), len(two[1]))
    return one[0] is two[0] and one[1][:length] == two[1][:length]


@dataclass
class Memory:
    """Buffers bound to each name, and deleted buffers. `entries` are the buffers that names held on entry to the
    function.
    """

    entries: dict[str, Buffer]
    holds: dict[Path, Held] = field(default_factory=dict)
    dead: dict[Held, Death] = field(default_factory=dict)

    def copy_memory(self) -> Memory:
        """Return the memory with which one of several branches starts."""
        return Memory(self.entries, dict(self.holds), dict(self.dead))

    def buffer_of_path(self, path: Path) -> Held:
        """Return the buffer that a path holds: its own, or a part of the one that a prefix of the path holds."""
        for length in range(len(path), 0, -1):
            found = self.holds.get(path[:length])
            if found is not None:
                return found[0], (*found[1], *path[length:])
        return self.entries.setdefault(path[0], Buffer(None, "given")), path[1:]

    def bind_path(self, path: Path, held: Held | Buffer) -> None:
        """Give a path something else to hold."""
        for known in [known for known in self.holds if known[: len(path)] == path]:
            del self.holds[known]
        self.holds[path] = (held, ()) if isinstance(held, Buffer) else held

    def buffers_inside(self, path: Path) -> Iterator[Held]:
        """Yield the buffers known to be held at places inside a path."""
        for known, held in self.holds.items():
            if len(known) > len(path) and known[: len(path)] == path:
                yield held

    def find_death(self, held: Held) -> Death | None:
        """The donation that what is held, or a part of it, died of."""
        return self._find_death_in_parts(held, set())

    def _find_death_in_parts(self, held: Held, alive: set[Held]) -> Death | None:
        """See `death`. `alive` are the parts of buffers that died of nothing: many ways may lead to each of them."""
        if held in alive:
            return None
        found = next((death for dead, death in self.dead.items() if is_nested_part(dead, held)), None)
        source = held[0].source
        if found is None and source is not None:
            found = self._find_death_in_parts((source[0], (*source[1], *held[1])), alive)
        for buffer, path in held[0].ways if found is None else ():
            died = self._find_death_in_parts((buffer, (*path, *held[1])), alive)
            if died is not None:
                return replace(died, must=False)
        if found is None:
            alive.add(held)
        return found

    def revive_buffer(self, held: Held) -> None:
        """Code that is not seen may have changed it in place: it is no longer known to be dead."""
        for dead in [dead for dead in self.dead if is_nested_part(dead, held)]:
            del self.dead[dead]

    def forget_contents(self, roots: Collection[str]) -> None:
        """Code that is not seen may have changed what objects hold."""
        for path in self.holds:
            if path[0] in roots and len(path) > 1:
                self.holds[path] = (Buffer(None, "unknown"), ())


def _merge_buffers(memory: Memory, path: Path, helds: list[Held], memories: list[Memory]) -> Buffer:
    """Return the buffer of a path where branches meet that bind different buffers. It is deleted if a branch deleted
    it.
    """
    alive = [held for held in helds if all(end.find_death(held) is None for end in memories)]
    either = Buffer(None, "unknown", ways=tuple(alive[:_WAYS]))
    died = next(filter(None, (end.find_death(end.buffer_of_path(path)) for end in memories)), None)
    if died is not None:
        memory.dead[either, ()] = replace(died, must=False)
    return either


def merge_memories(memories: list[Memory]) -> Memory | None:
    """Return the joined memory where branches meet; None if no branch arrives."""
    if len(memories) < 2:
        return memories[0] if memories else None
    memory = Memory(memories[0].entries)
    for path in {path for end in memories for path in end.holds}:
        found = list(dict.fromkeys(end.buffer_of_path(path) for end in memories))
        memory.holds[path] = found[0] if len(found) == 1 else (_merge_buffers(memory, path, found, memories), ())
    for held in {held for end in memories for held in end.dead}:
        deaths = [end.dead.get(held) for end in memories]
        death = next(death for death in deaths if death is not None)
        must = all(one is not None and one.must for one in deaths)
        memory.dead[held] = death if must else replace(death, must=False)
    return memory
