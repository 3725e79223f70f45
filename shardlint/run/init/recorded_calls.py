"""Recorded calls of jitted functions from a run of the program (`run/startup/first_call_code.py`)."""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.verify.spec import P


@dataclass
class Argument:
    """An argument as code. `specs` are those of its arrays, by path."""

    code: str
    imports: tuple[str, ...]
    below: int
    specs: dict[str, P]
    unplaced: tuple[str, ...] = ()
    """The paths of its arrays that have no spec."""


@dataclass
class Program:
    """A program as it is started (`script` may be `-m module`), the functions it calls, as `file:qualname` by name, and
    how many arrays of which arguments each gave up.
    """

    script: str
    arguments: list[str]
    functions: dict[str, str]
    gone: dict[str, dict[str, int]]


@dataclass
class Function:
    """A jitted function as it was called. `out`, `donate` and `reference` are what its fixture declares; `dropped` says
    what it does not, and why; `broken` why it has none that passes.
    """

    name: str
    reference_to: str
    file: Path
    line: int
    mesh: dict[str, int]
    explicit: bool
    context: str
    arguments: list[Argument]
    out: dict[str, P]
    donate: list[int]
    jit: str | None = None
    """The options of the jit around it that the program made of it; None where it is one itself."""
    imports: tuple[str, ...] = ()
    """What these options import."""
    partial: tuple[str, ...] = ()
    """What a partial of the function has been given before, as code."""
    made: str | None = None
    """The code that gives it, where it is made inside of another function."""
    after: tuple[int, ...] = ()
    """The arguments that it changes in place (objects of flax.nnx), whose state counts as given."""
    places: bool = False
    """Whether it is no jit: it places arrays, and jits, by itself."""
    runs: Program | None = None
    """The program that is run for it, up to the first calls of its jitted functions; `out` is of these."""
    unplaced: list[str] = field(default_factory=list)
    """The paths of results of which nothing is declared."""
    reference: bool = True
    dropped: list[str] = field(default_factory=list)
    broken: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A function of which no fixture can be written, and why."""

    name: str
    file: str
    line: int
    why: str
    is_lowered: bool = False
    """True if it was only seen to be lowered. Any call says more."""


def read_functions(folder: Path) -> tuple[list[Function], list[LeftOut], list[str]]:
    """The functions in the order they were called, those left out, and sentences for the reader."""
    found: dict[str, Function] = {}
    left: dict[tuple[str, str], LeftOut] = {}
    notes: dict[str, None] = {}
    paths = sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime, path.name))
    for path in paths:
        try:
            data = json.loads(path.read_text("utf-8"))
            why = data.get("skip") or _reason_not_recorded(data)
            if why:
                place = str(data.get("file", "")), int(data.get("line", 0))
                one = LeftOut(str(data["name"]), *place, why, bool(data.get("lowered")))
                known = left.get((one.file, one.name))
                if known is None or known.is_lowered:
                    left[one.file, one.name] = one
                continue
            function = _decode_function(data, set(found))
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if not data["guarded"]:
            notes[
                f"importing {function.file.name} runs it: put its work under `if __name__ == '__main__':`"
            ] = None
        if all(function.reference_to != one.reference_to for one in found.values()):
            found[function.name] = function
    fixtures = {(str(one.file), one.line) for one in found.values()}
    missing = [one for one in left.values() if (one.file, one.line) not in fixtures or not one.is_lowered]
    return list(found.values()), missing, list(notes)


def _reason_not_recorded(data: Mapping[str, Any]) -> str:
    if not data["mesh"]:
        return "its arguments are on no mesh, and no mesh is in context"
    if not data["out"] or not any(spec is not None for _, _, spec in data["out"]):
        return "none of its results is sharded over a mesh by a spec"
    return ""


def _decode_function(data: Mapping[str, Any], taken: set[str]) -> Function:
    file = Path(data["file"])
    module = str(data["module"])
    name = str(data["attribute"])
    plain = name.replace(".", "_")
    fixture = plain if plain not in taken else f"{module.rpartition('.')[2]}_{plain}"
    if not fixture.isidentifier() or keyword.iskeyword(fixture):
        raise ValueError(fixture)
    out, unplaced = _decode_specs(data["out"])
    return Function(
        fixture,
        f"{module}:{data['qualname'] if data.get('made') else name}",
        file,
        int(data["line"]),
        {str(axis): int(size) for axis, size in data["mesh"].items()},
        bool(data["explicit"]),
        str(data["context"]),
        [
            Argument(str(one["code"]), tuple(one["imports"]), int(one["below"]), *_decode_specs(one["specs"]))
            for one in data["args"]
        ],
        out,
        [int(at) for at in data["donate"]],
        None if data["jit"] is None else str(data["jit"]),
        tuple(data["imports"]),
        tuple(map(str, data.get("partial", ()))),
        data.get("made"),
        tuple(map(int, data.get("after", ()))),
        bool(data.get("places")),
        unplaced=list(unplaced),
    )


def _decode_specs(leaves: list[Any]) -> tuple[dict[str, P], tuple[str, ...]]:
    """Return the specs of arrays by path, and the paths of those without one."""
    specs = {
        str(path): P(*(tuple(part) if isinstance(part, list) else part for part in spec))
        for path, _, spec in leaves
        if spec is not None
    }
    return specs, tuple(str(path) for path, _, spec in leaves if spec is None)
