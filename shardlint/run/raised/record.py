"""Reader of the exception record that a program's process wrote (`run/startup/exception_record.py`).

It was written by another process: what is not as it should be is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    array: bool = True
    layout: bool = False
    """True of a sharding, a spec or a mesh."""
    kinds: tuple[str, ...] = ()
    """The types of the axes of its mesh."""
    names: tuple[str, ...] = ()
    """The names of its axes, of a NamedArray."""
    varying: tuple[str, ...] = ()
    """The manual axes along which it varies."""
    memory: str = ""
    """Its memory kind, except that of devices."""
    looked_at: bool = False
    """True if the function that raised held it in a variable, and not every other argument."""
    value: str = ""
    """A number, string or None."""
    entries: tuple[tuple[str, ...], ...] = ()
    """The mesh axes of each entry of its spec."""
    also: str = ""
    """What a caller calls it."""

    def describe_leaf(self) -> str:
        """`state['w'] f32[8,8]`."""
        if self.shape is None:
            return f"{self.where} {self.short}".rstrip()
        sizes = list(map(str, self.shape))
        if len(self.names) == len(sizes):
            sizes = [f"{name}={size}" for name, size in zip(self.names, sizes, strict=True)]
        return f"{self.where} {self.dtype}[{','.join(sizes)}]"

    def text_of_mesh(self) -> str:
        """`data=4 model=2 (Explicit)`."""
        if len(set(self.kinds)) > 1:
            parts = zip(self.mesh.items(), self.kinds, strict=True)
            return " ".join(f"{name}={size} ({kind})" for (name, size), kind in parts)
        kind = f" ({self.kinds[0]})" if self.kinds and self.kinds[0] != "Auto" else ""
        return " ".join(f"{name}={size}" for name, size in self.mesh.items()) + kind

    def with_mesh_of(self, other: Leaf) -> Leaf:
        """Return it with the mesh of another."""
        return replace(self, mesh=other.mesh, kinds=other.kinds)

    @property
    def element_count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape or ())


@dataclass(frozen=True)
class CallArgument:
    """An argument of a call, as it is written. `known` where its value could be looked up."""

    text: str
    parameter: str
    keyword: bool
    known: bool
    leaves: tuple[Leaf, ...]
    others: tuple[Leaf, ...] = ()
    """Shardings, specs, meshes, numbers and strings."""


@dataclass(frozen=True)
class Call:
    """The call a frame was in."""

    callee: str
    type: str
    parameters: tuple[str, ...]
    arguments: tuple[CallArgument, ...]
    defined: tuple[str, int] | None
    module: str = ""
    text: str = ""
    """The expression of an operator."""
    settings: tuple[CallArgument, ...] = ()
    """Meshes, specs and shardings that the called function was made with."""
    objects: tuple[CallArgument, ...] = ()
    """What the called function belongs to, and what is in arguments that are not known themselves."""
    nearby: tuple[CallArgument, ...] = ()
    """What its statement holds, if it took no array or layout itself."""
    devices: int = 0
    """Over how many devices `pmap` maps it; 0 of what is not mapped, or not known to be."""

    @property
    def argument_arrays(self) -> list[Leaf]:
        """The arrays of all arguments that are known."""
        return [leaf for given in self.arguments for leaf in given.leaves]

    @property
    def is_complete(self) -> bool:
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
    inside: tuple[tuple[str, int, str], ...] = ()
    """The innermost functions of libraries: file, line and name. jax leaves them out of its traceback."""
    context: Leaf | None = None
    """The mesh in context; None if that is not known."""
    devices: int = 0
    """The number of simulated devices; 0 if it is not known."""

    @property
    def user_frames(self) -> list[Frame]:
        """The frames of the user's own code, outermost first."""
        return [frame for frame in self.frames if is_own(frame.file)]

    @property
    def user_frame(self) -> Frame | None:
        """The innermost line of the user's own."""
        return self.user_frames[-1] if self.user_frames else None

    @property
    def failing_call(self) -> Call | None:
        """The call that line was in."""
        return self.user_frame.call if self.user_frame else None

    @property
    def is_raised_by_pmap(self) -> bool:
        """True if `pmap` raised it itself: no function of the user's runs below it."""
        below = any(file.endswith("pmap.py") for file, _, _ in self.inside)
        return below or (self.failing_call is not None and self.failing_call.devices > 0)

    @property
    def error_text(self) -> str:
        """`ValueError: ...`."""
        return f"{self.type}: {self.message}"


@dataclass(frozen=True)
class Raised:
    """An exception nobody caught, with those it was raised from. `test` is the test it failed."""

    errors: tuple[Error, ...]
    releases: Mapping[str, str]
    thread: str = ""
    test: str = ""


def read_exceptions(folder: Path) -> list[Raised]:
    """Return the exceptions recorded by the processes of a program in a folder, the oldest first."""
    found = []
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime, path.name)):
        try:
            found.append(decode_exception(json.loads(path.read_text("utf-8"))))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
    return [one for one in found if one.errors]


def decode_exception(data: Mapping[str, Any]) -> Raised:
    """One record."""
    return Raised(
        tuple(_decode_error(one) for one in data["errors"]),
        {str(name): str(release) for name, release in data.get("releases", {}).items()},
        str(data.get("thread", "")),
        str(data.get("test", "")),
    )


def _decode_error(data: Mapping[str, Any]) -> Error:
    return Error(
        str(data["type"]),
        tuple(map(str, data["bases"])),
        str(data["message"]),
        tuple(_decode_frame(one) for one in data["frames"]),
        tuple((str(file), int(line), str(name)) for file, line, name in data.get("inside", ())),
        None
        if data.get("context") is None
        else _decode_leaf({"layout": True, **data["context"]}, "the mesh in context", ""),
        int(data.get("devices", 0)),
    )


def _decode_frame(data: Mapping[str, Any]) -> Frame:
    call = data.get("call")
    return Frame(
        str(data["file"]),
        int(data["line"]),
        int(data["end"]),
        str(data["function"]),
        int(data["first"]),
        None if call is None else _decode_call(call),
    )


def _decode_call(data: Mapping[str, Any]) -> Call:
    parameters = tuple(map(str, data.get("parameters", ())))
    given: list[CallArgument] = []
    position = 0
    for one in data["arguments"]:
        name = one.get("name")
        if one.get("starred"):
            position = len(parameters)
        if name is None:
            name = parameters[position] if position < len(parameters) else ""
            position += 1
        given.append(_decode_argument(one, str(name)))
    defined = data.get("defined")
    parts = [part for one in data["arguments"] for part in one.get("parts", ())]
    where = (str(defined[0]), int(defined[1])) if defined else None
    return Call(
        str(data.get("callee", "")),
        str(data.get("type", "")),
        parameters,
        tuple(given),
        where,
        str(data.get("module", "")),
        str(data.get("text", "")),
        tuple(_decode_argument(one, one["text"]) for one in data.get("settings", ())),
        tuple(_decode_argument(one, "") for one in (*data.get("objects", ()), *parts)),
        tuple(_decode_argument(one, "") for one in data.get("nearby", ())),
        int(data.get("devices", 0)),
    )


def _decode_argument(data: Mapping[str, Any], parameter: str) -> CallArgument:
    text = str(data["text"])
    leaves = [_decode_leaf(one, text, parameter) for one in data.get("leaves", ())]
    return CallArgument(
        text,
        parameter,
        data.get("name") is not None,
        bool(data.get("known")),
        tuple(leaf for leaf in leaves if leaf.array),
        tuple(leaf for leaf in leaves if not leaf.array),
    )


def _decode_leaf(data: Mapping[str, Any], text: str, parameter: str) -> Leaf:
    shape = data.get("shape")
    spec = data.get("spec")
    return Leaf(
        str(data.get("as", "")) or text + str(data.get("path", "")),
        _short_dtype(str(data.get("dtype", ""))),
        None if shape is None else tuple(map(int, shape)),
        tuple(map(int, data.get("order", data.get("devices", ())))),
        "" if spec is None else f"P({', '.join(map(_format_part, spec))})",
        {str(name): int(size) for name, size in data.get("mesh", {}).items()},
        bool(data.get("committed", False)),
        bool(data.get("deleted", False)),
        str(data.get("short", "")),
        parameter + str(data.get("path", "")) if parameter else "",
        None if data.get("axis") is None else int(data["axis"]),
        bool(data.get("array", False)),
        bool(data.get("layout", False)),
        tuple(map(str, data.get("kinds", ()))),
        tuple(map(str, data.get("axes", ()))),
        tuple(map(str, data.get("varying", ()))),
        str(data.get("memory", "")),
        bool(data.get("looked_at", False)),
        str(data.get("value", "")),
        tuple(_axes_of_entry(part) for part in spec or () if not isinstance(part, dict)),
        str(data.get("also", "")),
    )


def _axes_of_entry(part: Any) -> tuple[str, ...]:
    return tuple(map(str, part)) if isinstance(part, list) else () if part is None else (str(part),)


def _format_part(part: Any) -> str:
    if isinstance(part, dict):
        return ", ".join(f"{name}={{{', '.join(map(repr, axes))}}}" for name, axes in part.items())
    if isinstance(part, list):
        return f"({', '.join(repr(one) for one in part)}{',' if len(part) == 1 else ''})"
    return repr(part)


def _short_dtype(name: str) -> str:
    kind = name.rstrip("0123456789")
    return _SHORT[kind] + name[len(kind) :] if kind in _SHORT and kind != name else name
