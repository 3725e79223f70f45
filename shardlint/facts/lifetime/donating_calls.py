"""Calls that donate, and their arguments."""

from __future__ import annotations

import ast

from shardlint.model.values import Place
from shardlint.source.lazy import dataclass


@dataclass(frozen=True)
class Argument:
    """One argument of a call: the expression, and the position or parameter it fills.

    `taken` tells whether the compiled program takes its buffer: True where the function returns an update of it, False
    where it returns something else or is not known.
    """

    node: ast.expr
    position: int | None
    name: str | None
    donated: bool
    static: bool
    taken: bool
    parts: tuple[str, ...] = ()
    """Where only attributes of it are seen to be updated: which."""
    array: bool = False
    """Whether the function treats it as one array."""
    used: bool | None = None
    """Whether the function uses it at all; None where its body is not known."""
    behind: bool = False
    """Whether only a negative position asks for its donation, which does nothing before jax 0.12."""


@dataclass(frozen=True)
class DonatingCall:
    """A call that donates: `by` is the wrapper (jit, decorator) that asked for it, `api` its canonical name."""

    call: ast.Call
    by: Place
    api: str
    arguments: tuple[Argument, ...]
    placed: bool
    """Whether the wrapper has shardings: arguments placed otherwise are copied, and the copy is donated."""

    @property
    def donated_arguments(self) -> tuple[Argument, ...]:
        """The donated arguments."""
        return tuple(argument for argument in self.arguments if argument.donated)
