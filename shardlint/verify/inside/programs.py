"""Lowered programs of several processes: whether they are one, and which line differs where not. No jax."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardlint.verify.inside import load
from shardlint.verify.working_directory import shown_path

_DEFINED = re.compile(r"(#loc\w*) = loc\((.*)\)$")
_USED = re.compile(r" loc\((#loc\w*)\)\s*$")
_PLACE = re.compile(r'"([^"]+\.\w+)":(\d+):\d+')
_NEAR = 6
_NAME = re.compile(r"#loc\w*")


def write_program(lowered: Any, file: Path) -> str:
    """Write a lowered program's text, and beside it the text with places; returns its digest."""
    text = lowered.as_text()
    file.write_text(text, "utf-8")
    file.with_suffix(".places").write_text(with_places(lowered), "utf-8")
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def program_fingerprint(executable: Any) -> tuple[str, bool]:
    """The digest of what a compiled program does, with the numbers in it and without its places in the source ("" where
    that cannot be told), and whether its devices talk to each other (they may, where that cannot be told).
    """
    try:
        options = _compile_options()
        text = "".join(module.to_string(options) for module in executable.hlo_modules())
    except Exception:  # not public: releases differ in what they show of it
        return "", True
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), _TALKS.search(text) is not None


_TALKS = re.compile(r"\b(all-|reduce-scatter|collective-|ragged-all|send|recv|partition-id|custom-call)")


def _compile_options() -> Any:
    for name in ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension"):
        with contextlib.suppress(ImportError, AttributeError):
            options = importlib.import_module(name).HloPrintOptions()
            options.print_large_constants, options.print_metadata = True, False
            options.canonicalize_instruction_names = options.canonicalize_computations = True
            return options
    raise ImportError


def with_places(lowered: Any) -> str:
    """A lowered program's text that says of every operation where in the source it comes from."""
    try:
        return str(lowered.as_text(debug_info=True))
    except TypeError:  # jax before 0.5
        return str(lowered.compiler_ir().operation.get_asm(enable_debug_info=True))


def find_difference(one: Path, other: Path) -> tuple[str, str, str, str]:
    """The first lines in which two written programs differ, and the user's line each comes from (`file:line`, ""
    where that is not told).
    """
    with one.open(encoding="utf-8") as left, other.open(encoding="utf-8") as right:
        for number, (mine, yours) in enumerate(itertools.zip_longest(left, right, fillvalue="")):
            if mine != yours:
                return mine.strip(), yours.strip(), _place_of_line(one, number), _place_of_line(other, number)
    return "", "", "", ""


def _place_of_line(file: Path, number: int) -> str:
    """Where line `number` of a written program comes from; a constant has no place, but what it is for has."""
    defined: dict[str, str] = {}
    operations = []
    with file.with_suffix(".places").open(encoding="utf-8") as lines:
        for line in lines:
            if found := _DEFINED.match(line.rstrip("\n")):
                defined[found[1]] = found[2]
            elif not line.startswith("#loc"):
                operations.append(_USED.search(line))
    for used in operations[number : number + _NEAR]:
        for source, line_number in () if used is None else _places_of_location(used[1], defined):
            if load.is_theirs(source):
                return f"{shown_path(source)}:{line_number}"
    return ""


def _places_of_location(name: str, defined: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The places a location is made of, innermost first."""
    waiting, seen = [name], {name}
    while waiting:
        text = defined.get(waiting.pop(0), "")
        yield from _PLACE.findall(text)
        new = [one for one in _NAME.findall(text) if one not in seen]
        seen.update(new)
        waiting += new
