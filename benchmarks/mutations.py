"""How many mistakes are seen that are put into real code: one line of a public project is changed, and it is checked.

`mutations.py FOLDER... [--operator NAME] [--most 24]`: each FOLDER is a project as it was cloned. Files that are named
like tests are left out. Each operator takes away what its mistake is the lack of; a project gives one place after
another, by turns, always the same ones. Seen is a finding at default certainty that the project does not have as it is,
old names aside; whether it stands at the changed line is told apart. Not each change is a mistake: some places do
without. Nothing is written to the projects: the changed text goes in by standard input.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SEED, _NEAR = 5, 2
_OLD = ("SL9", "SL315", "SL312", "SL513")
_SPECS = ("P", "PS", "PartitionSpec")


@dataclass(frozen=True)
class Place:
    """Where a text is changed: bytes from `start` to `end` become `text`."""

    project: Path
    file: Path
    line: int
    start: int
    end: int
    text: str


class _Text:
    """A file, its tree, and where nodes stand in its bytes."""

    def __init__(self, source: bytes) -> None:
        self.bytes = source
        self.tree = ast.parse(source)
        self.lines = [0]
        for line in source.split(b"\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)

    def span(self, node: ast.expr) -> tuple[int, int]:
        last, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.lines[node.lineno - 1] + node.col_offset, self.lines[last - 1] + column

    def of(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.bytes[start:end].decode("utf-8", "replace")


Change = tuple[int, int, int, str]
"""A line, the first and last byte, and what comes in their place."""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _calls(text: _Text, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(text.tree):
        if isinstance(node, ast.Call) and _name(node.func) in names:
            yield node


def _gradients(text: _Text) -> Iterator[Change]:
    """`grads = jax.lax.pmean(grads, axis)` becomes `grads = grads`."""
    for node in ast.walk(text.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call):
            target, call = text.of(node.targets[0]), node.value
            reduces = _name(call.func) in ("pmean", "psum") and call.args and "grad" in target.lower()
            if reduces and text.of(call.args[0]) == target:
                yield node.lineno, *text.span(call), target


def _keys(text: _Text) -> Iterator[Change]:
    """`jax.random.fold_in(key, jax.lax.axis_index(axis))` becomes `key`."""
    for call in _calls(text, "fold_in"):
        if len(call.args) == 2 and "axis_index" in text.of(call.args[1]):
            yield call.lineno, *text.span(call), text.of(call.args[0])


def _placed(text: _Text) -> Iterator[Change]:
    """`jax.jit(init, out_shardings=...)` becomes `jax.jit(init)`."""
    for call in _calls(text, "jit"):
        if not call.args or "init" not in text.of(call.args[0]).lower():
            continue
        for keyword in call.keywords:
            if keyword.arg == "out_shardings":
                start = text.bytes.rindex(b"out_shardings", 0, text.span(keyword.value)[0])
                before = text.bytes[:start].rstrip()
                yield call.lineno, len(before.removesuffix(b",")), text.span(keyword.value)[1], ""


def _declared(text: _Text) -> Iterator[Change]:
    """`out_specs=P("data")` of a shard_map becomes `out_specs=P()`."""
    for call in _calls(text, "shard_map"):
        for keyword in call.keywords:
            spec = keyword.value
            if keyword.arg == "out_specs" and isinstance(spec, ast.Call) and _name(spec.func) in _SPECS and spec.args:
                yield spec.lineno, *text.span(spec), f"{text.of(spec.func)}()"


OPERATORS: dict[str, Callable[[_Text], Iterator[Change]]] = {
    "gradients not averaged": _gradients,
    "one key for all devices": _keys,
    "made with no out_shardings": _placed,
    "declared replicated": _declared,
}


def places(projects: Sequence[Path], operator: str, most: int) -> list[Place]:
    """Where an operator changes something, at most so often, each project in turn."""
    found: dict[Path, list[Place]] = defaultdict(list)
    for project in projects:
        for file in sorted(project.rglob("*.py")):
            inside = file.relative_to(project).parts
            if any(part.startswith("test") or part.endswith("_test.py") for part in inside) or not file.is_file():
                continue
            source = file.read_bytes()
            if b"jax" not in source or b"\r" in source:
                continue
            try:
                changes = list(OPERATORS[operator](_Text(source)))
            except (SyntaxError, ValueError, RecursionError):
                continue
            found[project] += (Place(project, file, *change) for change in changes)
    drawn, order = random.Random(_SEED), sorted(found)
    drawn.shuffle(order)
    chosen: list[Place] = []
    while any(found.values()) and len(chosen) < most:
        for project in order:
            if found[project] and len(chosen) < most:
                chosen.append(found[project].pop(drawn.randrange(len(found[project]))))
    return chosen


def _findings(place: Place, source: bytes) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "shardlint", "check", "--output-format", "json", "--no-cache"]
    name = ["--stdin-filename", str(place.file), "-"]
    ran = subprocess.run([*command, *name], cwd=place.project, input=source, capture_output=True, check=False)
    told: list[dict[str, Any]] = json.loads(ran.stdout)["findings"]
    return [one for one in told if not one["code"].startswith(_OLD)]


def outcome(place: Place) -> str:
    """`at` the line or one near it, `elsewhere` in the file or project, or `missed`."""
    source = place.file.read_bytes()
    changed = source[: place.start] + place.text.encode() + source[place.end :]
    try:
        ast.parse(changed)
    except SyntaxError:
        return "not Python any more"
    before = Counter((one["code"], one["message"]) for one in _findings(place, source))
    new: list[dict[str, Any]] = []
    for one in _findings(place, changed):
        kind = one["code"], one["message"]
        before[kind] -= 1
        if before[kind] < 0:
            new.append(one)
    if any(one["line"] - _NEAR <= place.line <= one["end_line"] + _NEAR for one in new):
        return "at"
    return "elsewhere" if new else "missed"


def main() -> None:
    """Print each change with its outcome, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="+", type=Path)
    parser.add_argument("--operator", action="append", choices=sorted(OPERATORS))
    parser.add_argument("--most", type=int, default=24)
    asked = parser.parse_args()
    projects = [project.resolve() for project in asked.projects if project.is_dir()]
    for operator in asked.operator or OPERATORS:
        told: Counter[str] = Counter()
        for place in places(projects, operator, asked.most):
            result = outcome(place)
            told[result] += 1
            shown = place.file.relative_to(place.project).as_posix()
            print(f"{operator}: {result}: {place.project.name} {shown}:{place.line}", flush=True)
        print(f"{operator}: {dict(told)}", flush=True)


if __name__ == "__main__":
    main()
