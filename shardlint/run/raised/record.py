"""Reader of the exception record that a program's process wrote (`run/startup/raised.py`).

It was written by another process: what is not as it should be is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.verify.inside.hlo.lines import is_own

_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


@dataclass(frozen=True)
class Leaf:
    """A leaf of what a call was given. `where` is its path from the argument as written: `state['w']`."""

    where: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    devices: tuple[int, ...] = ()
    """Numbers of its devices in their order; () where it is not an array of jax."""
    spec: str = ""
    mesh: Mapping[str, int] = field(default_factory=dict)
    committed: bool = False
    deleted: bool = False
    short: str = ""
    """What jax calls it while it is traced."""
    parameter: str = ""
    """The parameter it is given for, where that is known."""
    axis: int | None = None
    """The axis along which `pmap` maps it."""

    def text(self) -> str:
        """`state['w'] f32[8,8]`."""
        if self.short:
            return f"{self.where} {self.short}"
        if self.shape is None:
            return self.where
        return f"{self.where} {self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape or ())


@dataclass(frozen=True)
class Given:
    """An argument of a call, as it is written. `known` where its value could be looked up."""

    text: str
    parameter: str
    keyword: bool
    known: bool
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True)
class Call:
    """The call a frame was in."""

    callee: str
    type: str
    parameters: tuple[str, ...]
    arguments: tuple[Given, ...]
    defined: tuple[str, int] | None
    module: str = ""
    devices: int = 0
    """Over how many devices `pmap` maps it; 0 of what is not mapped, or not known to be."""

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves of all arguments that are known."""
        return [leaf for given in self.arguments for leaf in given.leaves]

    @property
    def whole(self) -> bool:
        """True if every argument is known."""
        return all(given.known for given in self.arguments)


@dataclass(frozen=True)
class Frame:
    """A line of the traceback."""

    file: str
    line: int
    end: int
    function: str
    first: int
    call: Call | None = None


@dataclass(frozen=True)
class Error:
    """An exception of the chain."""

    type: str
    bases: tuple[str, ...]
    message: str
    frames: tuple[Frame, ...]

    @property
    def own(self) -> list[Frame]:
        """The frames of the user's own code, outermost first."""
        return [frame for frame in self.frames if is_own(frame.file)]

    @property
    def at(self) -> Frame | None:
        """The innermost line of the user's own."""
        return self.own[-1] if self.own else None

    @property
    def call(self) -> Call | None:
        """The call that line was in."""
        return self.at.call if self.at else None

    @property
    def in_pmap(self) -> bool:
        """True if `pmap` raised it itself: no function of the user's runs below it."""
        frames = self.frames[self.frames.index(self.own[-1]) + 1 :] if self.own else ()
        below = any(frame.file.endswith("pmap.py") for frame in frames)
        return below or (self.call is not None and self.call.devices > 0)

    @property
    def said(self) -> str:
        """`ValueError: ...`."""
        return f"{self.type}: {self.message}"


@dataclass(frozen=True)
class Raised:
    """An exception nobody caught, with those it was raised from. `test` is the test it failed."""

    errors: tuple[Error, ...]
    releases: Mapping[str, str]
    thread: str = ""
    test: str = ""


def read(folder: Path) -> list[Raised]:
    """Return the exceptions recorded by the processes of a program in a folder, the oldest first."""
    found = []
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime, path.name)):
        try:
            found.append(raised(json.loads(path.read_text("utf-8"))))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
    return [one for one in found if one.errors]


def raised(data: Mapping[str, Any]) -> Raised:
    """One record."""
    return Raised(
        tuple(_error(one) for one in data["errors"]),
        {str(name): str(release) for name, release in data.get("releases", {}).items()},
        str(data.get("thread", "")),
        str(data.get("test", "")),
    )


def _error(data: Mapping[str, Any]) -> Error:
    return Error(
        str(data["type"]),
        tuple(map(str, data["bases"])),
        str(data["message"]),
        tuple(_frame(one) for one in data["frames"]),
    )


def _frame(data: Mapping[str, Any]) -> Frame:
    call = data.get("call")
    return Frame(
        str(data["file"]),
        int(data["line"]),
        int(data["end"]),
        str(data["function"]),
        int(data["first"]),
        None if call is None else _call(call),
    )


def _call(data: Mapping[str, Any]) -> Call:
    parameters = tuple(map(str, data.get("parameters", ())))
    given: list[Given] = []
    position = 0
    for one in data["arguments"]:
        name = one.get("name")
        if one.get("starred"):
            position = len(parameters)
        if name is None:
            name = parameters[position] if position < len(parameters) else ""
            position += 1
        given.append(_given(one, str(name)))
    defined = data.get("defined")
    where = (str(defined[0]), int(defined[1])) if defined else None
    return Call(
        str(data.get("callee", "")),
        str(data.get("type", "")),
        parameters,
        tuple(given),
        where,
        str(data.get("module", "")),
        int(data.get("devices", 0)),
    )


def _given(data: Mapping[str, Any], parameter: str) -> Given:
    text = str(data["text"])
    leaves = tuple(_leaf(one, text, parameter) for one in data.get("leaves", ()) if one.get("array"))
    return Given(text, parameter, data.get("name") is not None, bool(data.get("known")), leaves)


def _leaf(data: Mapping[str, Any], text: str, parameter: str) -> Leaf:
    shape = data.get("shape")
    spec = data.get("spec")
    return Leaf(
        text + str(data.get("path", "")),
        _dtype(str(data.get("dtype", ""))),
        None if shape is None else tuple(map(int, shape)),
        tuple(map(int, data.get("order", data.get("devices", ())))),
        "" if spec is None else f"P({', '.join(map(_part, spec))})",
        {str(name): int(size) for name, size in data.get("mesh", {}).items()},
        bool(data.get("committed", False)),
        bool(data.get("deleted", False)),
        str(data.get("short", "")),
        parameter + str(data.get("path", "")) if parameter else "",
        None if data.get("axis") is None else int(data["axis"]),
    )


def _part(part: Any) -> str:
    if isinstance(part, list):
        return f"({', '.join(repr(one) for one in part)}{',' if len(part) == 1 else ''})"
    return repr(part)


def _dtype(name: str) -> str:
    kind = name.rstrip("0123456789")
    return _SHORT[kind] + name[len(kind) :] if kind in _SHORT and kind != name else name
