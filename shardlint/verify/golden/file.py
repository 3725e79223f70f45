"""A golden as a file: TOML with a line for each array and each source line that moves bytes, in a stable order."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.output.printable import make_printable
from shardlint.source.regular_files import parse_toml, read_regular
from shardlint.verify.fixture import parse_bytes
from shardlint.verify.texts import size_text

FORMAT = 1
TOLERANCE = 0.01
_READ_MAX = 64 * 2**20

_HEAD = "# The communication and memory of this fixture's programs. Written by `shardlint verify --update`, "
"compared by\n# `shardlint verify`; review a change of it like code. Bytes are per device. Specs leave out "
"mesh axes of\n# size 1. A line's bytes count each round of its loop, in one call; `by` is for the reader and "
"not compared.\n# `tolerance` (a fraction of the bytes) is yours to change.\n"


class BadGolden(Exception):
    """A golden that cannot be read; the message names the file."""


@dataclass(frozen=True)
class KeptArray:
    """An array: dtype and shape, spec, bytes on one device, whether its donated buffer was reused (None: not
    donated, or not known).
    """

    array: str
    spec: str
    bytes: int
    reused: bool | None = None

    def describe_array(self, whole: bool) -> str:
        """As a drift shows it; `whole` with its dtype and shape."""
        reused = {True: "  reused", False: "  donated, not reused", None: ""}[self.reused]
        return (f"{self.array}  " if whole else "") + f"{self.spec}  {size_text(self.bytes)}/device{reused}"


@dataclass(frozen=True)
class KeptLine:
    """The bytes one source line moves over some mesh axes in one call (`axes` with commas)."""

    file: str
    function: str
    text: str
    axes: str
    bytes: int
    by: str
    number: int = field(default=0, compare=False)
    """The line's number now; not kept."""

    def line_key(self) -> tuple[str, str, str, str]:
        """Return the key of a line."""
        return (self.file, self.function, self.text, self.axes)

    def format_place(self) -> str:
        """Its file, number where known, and function."""
        if not self.file:
            return "(no line)"
        file = f"{self.file}:{self.number}" if self.number else self.file
        return f"{file} in {self.function}" if self.function else file

    def describe_moved(self) -> str:
        """As a drift shows it."""
        return f"over {self.axes or 'no axis'}: {size_text(self.bytes)}  {self.by}"


@dataclass(frozen=True)
class GoldenProgram:
    """One program: on a mesh, at a level, for a backend, by some releases."""

    mesh: str
    level: str
    backend: str
    releases: dict[str, str]
    arrays: dict[str, KeptArray]
    lines: list[KeptLine]

    def run_key(self) -> tuple[str, str, str]:
        """Return the key of a run."""
        return (self.mesh, self.level, self.backend)

    def run_name(self) -> str:
        """As a person reads it."""
        return f"run on mesh {self.mesh.replace(',', ' ')} at level {self.level} ({self.backend})"

    def jax_release(self) -> str:
        """The release of jax."""
        return self.releases.get("jax", "unknown")


@dataclass(frozen=True)
class Golden:
    """All that is kept of one fixture."""

    fixture: str
    tolerance: float = TOLERANCE
    runs: list[GoldenProgram] = field(default_factory=list)

    def find_run(self, key: tuple[str, str, str]) -> GoldenProgram | None:
        """The run known by this key."""
        return next((run for run in self.runs if run.run_key() == key), None)


def golden_text(golden: Golden) -> str:
    """The file's text."""
    out = [
        _HEAD,
        f"format = {FORMAT}",
        f"fixture = {_write_string(golden.fixture)}",
        f"tolerance = {golden.tolerance!r}",
    ]
    for run in golden.runs:
        out += ["", "[[run]]", f"mesh = {_write_string(run.mesh)}", f"level = {_write_string(run.level)}"]
        out += [f"backend = {_write_string(run.backend)}"]
        out += [
            f"releases = {_write_table({name: _write_string(text) for name, text in run.releases.items()})}"
        ]
        out += ["lines = ["]
        for line in run.lines:
            told = {name: _write_string(getattr(line, name)) for name in ("file", "function", "text", "axes")}
            out.append(
                f"  {_write_table({**told, 'bytes': f'{line.bytes:_}', 'by': _write_string(line.by)})},"
            )
        out += ["]", "", "[run.arrays]"]
        for where, array in run.arrays.items():
            kept = {
                "array": _write_string(array.array),
                "spec": _write_string(array.spec),
                "bytes": f"{array.bytes:_}",
            }
            if array.reused is not None:
                kept["reused"] = str(array.reused).lower()
            out.append(f"{_write_string(where)} = {_write_table(kept)}")
    return "\n".join(out) + "\n"


def _write_table(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name} = {value}" for name, value in values.items()) + "}"


def _write_string(text: str) -> str:
    text = make_printable(text)
    if any(mark in text for mark in '"\\') and "'" not in text:
        return f"'{text}'"
    # A JSON string is a TOML one, once no character is left that TOML forbids.
    return json.dumps(text, ensure_ascii=False)


def read_golden(path: Path) -> Golden | None:
    """The golden in a file, or None where there is none. Raises `BadGolden`."""
    try:
        if not path.exists():
            return None
        data = parse_toml(read_regular(path, _READ_MAX).decode())
        if data["format"] != FORMAT:
            raise BadGolden(f"{path}: format {data['format']}, but this shardlint reads format {FORMAT}")
        tolerance = float(data["tolerance"])
        if not 0 <= tolerance < 1:
            raise BadGolden(f"{path}: tolerance is {tolerance:g}; write a fraction such as 0.01")
        return Golden(
            _read_text_field(data, "fixture"), tolerance, [_read_run(run) for run in data.get("run", ())]
        )
    except OSError as error:
        raise BadGolden(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadGolden(f"{path}: not valid TOML: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadGolden(f"{path}: not a golden: {type(error).__name__}: {error}") from None


def _read_run(data: Mapping[str, Any]) -> GoldenProgram:
    return GoldenProgram(
        _read_text_field(data, "mesh"),
        _read_text_field(data, "level"),
        _read_text_field(data, "backend"),
        {str(name): str(release) for name, release in data["releases"].items()},
        {where: _read_array(array) for where, array in data.get("arrays", {}).items()},
        [_read_line(line) for line in data["lines"]],
    )


def _read_array(data: Mapping[str, Any]) -> KeptArray:
    reused = data.get("reused")
    if reused is not None and not isinstance(reused, bool):
        raise TypeError(f"reused is {reused!r}")
    return KeptArray(
        _read_text_field(data, "array"),
        _read_text_field(data, "spec"),
        parse_bytes(int(data["bytes"])),
        reused,
    )


def _read_line(data: Mapping[str, Any]) -> KeptLine:
    file, function, text, axes, by = (
        _read_text_field(data, name) for name in ("file", "function", "text", "axes", "by")
    )
    return KeptLine(file, function, text, axes, parse_bytes(int(data["bytes"])), by)


def _read_text_field(data: Mapping[str, Any], name: str) -> str:
    if not isinstance(data[name], str):
        raise TypeError(f"{name} is {data[name]!r}")
    return str(data[name])
