"""Uses of a function: the calls that run it, and the transforms that wrap it on the way."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Literal

from shardlint.model.values import Place
from shardlint.source.lazy import dataclass

_MOST = 200
# How a function went through `f.defvjp`: it is a rule of another one, and runs where that does.
RULE = "a rule of"


@dataclass(frozen=True)
class Wrapper:
    """A transform a function went through: what it does, its name as people write it, where, and its canonical name.

    With the effect `held`, a dict, list or tuple that the function is put into; `place` is its key, or itself.
    """

    effect: str
    name: str
    place: Place
    how: str = "wrapped by"
    api: str = ""


@dataclass(frozen=True)
class FunctionUse:
    """One thing that becomes of a function.

    `wrapped`: it went into a staging transform at `place`: whatever calls the result, the function runs traced.
    `called`: it is run by the call at `place`, through `wrappers` (outermost last).
    `escaped`: it is lost sight of; `why` tells how.
    """

    kind: Literal["wrapped", "called", "escaped"]
    place: Place
    wrappers: tuple[Wrapper, ...]
    why: str = ""
    decorated: Place | None = None
    """The definition that it is a decorator of, where it escaped as one."""

    @property
    def is_staged(self) -> bool:
        """True if the function runs traced, however it is called from here."""
        return any(wrapper.effect == "staged" for wrapper in self.wrappers)


@dataclass
class FunctionUses:
    """All the ends found. `cut` says that following was stopped before all was seen.

    With `every` it is not stopped where one is lost sight of: asked for is what calls there are, not that they are all.
    """

    found: list[FunctionUse] = field(default_factory=list)
    cut: bool = False
    every: bool = False
    _met: set[Hashable] = field(default_factory=set, repr=False)

    def is_first_visit(self, way: Hashable) -> bool:
        """Return whether a path to follow is met for the first time. Functions may be passed to each other in
        cycles.
        """
        if way in self._met:
            return False
        self._met.add(way)
        return True

    def note_cut_path(self) -> None:
        """One way was not followed to its end. Of those that are looked for in sight, it is one fewer."""
        self.cut = self.cut or not self.every

    @property
    def complete(self) -> bool:
        """True if every call of the function is known."""
        return not self.cut and not any(end.kind == "escaped" for end in self.found)

    @property
    def may_have_unseen_calls(self) -> bool:
        """True if there may be calls, not through a staging transform, that we do not see."""
        return self.cut or any(end.kind == "escaped" and not end.is_staged for end in self.found)

    def direct_calls(self, most: int | None = None) -> list[Place]:
        """Where the function itself is called, through no transform, among the first `most` of its ends."""
        return [end.place for end in self.found[:most] if end.kind == "called" and not end.wrappers]

    def is_following_useless(self, wrappers: tuple[Wrapper, ...]) -> bool:
        """Return whether following a function further, through these wrappers, cannot prove anything more."""
        if self.every:
            return self.cut
        return self.may_have_unseen_calls or (
            not self.complete and any(wrapper.effect == "staged" for wrapper in wrappers)
        )

    def add_end(self, end: FunctionUse) -> None:
        """Record an end."""
        if len(self.found) < _MOST:
            self.found.append(end)
        else:
            self.cut = True
