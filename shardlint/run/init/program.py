"""A fixture of the whole program: where the arrays lie that it gives to its jitted functions, and that these give.

What a program places in `main`, or in a function that cannot be called again, is seen by no fixture of a function.
"""

from __future__ import annotations

import json
import keyword
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlint.run.init.recorded_calls import Function, Program
from shardlint.verify.spec import P


def make_program_fixture(folder: Path, words: Sequence[str], root: Path, taken: set[str]) -> Function | None:
    """The fixture of the program that these words started; None where it is no script or module, or nothing that it
    called was split.
    """
    started = _script_and_arguments(words)
    found = _recorded_calls(folder)
    sizes = Counter(tuple(mesh.items()) for one in found for _, _, mesh in one["leaves"])
    if started is None or not sizes:
        return None
    mesh = dict(sizes.most_common(1)[0][0])
    functions: dict[str, str] = {}
    gone: dict[str, dict[str, int]] = {}
    out: dict[str, P] = {}
    for one in found:
        leaves = {path: _make_spec(parts) for path, parts, of in one["leaves"] if of == mesh}
        if not leaves:
            continue
        name = _unique_name(one, functions)
        file = Path(one["file"])
        functions[name] = f"{file.relative_to(root) if file.is_relative_to(root) else file.name}:{one['name']}"
        out |= {f"{name}/{path}": spec for path, spec in leaves.items()}
        if one.get("gone"):
            gone[name] = {str(path): int(count) for path, count in one["gone"].items()}
    if not any(spec.entries for spec in out.values()):
        return None
    script, arguments = started
    file = (root / script).resolve() if not script.startswith("-m ") else Path(found[0]["file"])
    name = next(name for name in ("program", "whole_program", "program_as_run") if name not in taken)
    return Function(
        name,
        script,
        file,
        1,
        mesh,
        False,
        "none",
        [],
        out,
        [],
        reference=False,
        runs=Program(script, arguments, functions, gone),
    )


def _script_and_arguments(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The script, or `-m module`, and its arguments."""
    rest = list(words)
    if os.path.basename(rest[0]).startswith(("python", "pypy")):  # noqa: PTH119
        rest = rest[1:]
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            if rest[0] == "-c":
                return None
            rest = rest[1:]
    if len(rest) > 1 and rest[0] == "-m":
        return f"-m {rest[1]}", rest[2:]
    return (rest[0], rest[1:]) if rest and rest[0].endswith(".py") else None


def _recorded_calls(folder: Path) -> list[dict[str, Any]]:
    """Return the recorded calls, of each function the first, in their order."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        try:
            one = json.loads(path.read_text("utf-8")).get("arrived")
            if one is not None:
                found.setdefault((one["file"], one["name"]), one)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return list(found.values())


def _unique_name(one: Mapping[str, Any], taken: Mapping[str, str]) -> str:
    plain = str(one["name"]).rpartition(".")[2]
    if not plain.isidentifier() or keyword.iskeyword(plain):
        plain = f"line_{one['line']}"
    return next(name for name in (plain, *(f"{plain}_{at}" for at in range(2, 10_000))) if name not in taken)


def _make_spec(parts: Sequence[Any]) -> P:
    return P(*(tuple(part) if isinstance(part, list) else part for part in parts))
