"""What is predicted of programs beside what jax makes of them.

    python -m tests.layouts.compare FIRST COUNT [RELEASE [linen]]

prints the differences of so many generated programs, and the figures; with `linen`, of programs of flax linen.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.layouts.layout import Layout
from shardlint.layouts.values import AnyTree, DictValue, Unknown, Value, children, path_step
from shardlint.libraries import FUNCTIONS
from shardlint.model.project import Project
from shardlint.source.text import decode
from tests.layouts import linen_programs
from tests.layouts.generated import program
from tests.programs import simulated

_BATCH = 100
# Errors about layouts, by their types, and by what others say.
_TYPES = ("ShardingTypeError", "IndivisibleError")
_SAYS = ("incompatible devices", "memory_space", "sharding", "shard_map", "rank at least", "carry", "Mesh", "vmap should", "replicated",
         "AssertionError", "PartitionSpec", "unsharded", "axis_index", "partition_name")  # fmt: skip


@dataclass
class Outcome:
    """Figures over programs, and what differs, in words."""

    programs: int = 0
    arrays: int = 0
    known: int = 0
    errors: int = 0
    predicted: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.programs} programs: {len(self.wrong)} wrong; of {self.errors} layout errors {self.predicted} predicted; "
            f"of {self.arrays} arrays {self.known} known in all parts"
        )


Maker = Callable[[int], str]
"""What makes a program of a seed."""


def predicted(
    text: str, release: tuple[int, ...]
) -> tuple[dict[str, Layout], dict[int, str], dict[int, set[str]]]:
    """What is known of the arrays that a program binds, by line and path, and the contracts it breaks, by line.

    And the paths of all arrays of the trees whose structure is known.
    """
    path = Path("/program/main.py")
    source = decode(path, text.encode())
    project = Project(path.parent, {path: source})
    facts = project.checked(source, path)
    run = Interpreter(Modules(project, FUNCTIONS, {"jax": release}), facts)
    run.run()
    arrays: dict[str, Layout] = {}
    closed: dict[int, set[str]] = {}
    for node in facts.tree.body:
        for statement in node.body if isinstance(node, ast.With) else [node]:
            if isinstance(statement, ast.Assign):
                line, value = statement.lineno, run.layouts.get(statement.value)
                found = {path: one for path, one in _leaves(value) if isinstance(one, Layout)}
                arrays |= {f"{line}{path}": one for path, one in found.items()}
                if type(value) is DictValue and all(isinstance(one, Layout) for _, one in _leaves(value)):
                    closed[line] = {f"{line}{path}" for path in found}
    broken = {(one.calls[0] if one.calls else one.place).line: one.kind for one in run.violations.values()}
    return arrays, broken, closed


def _leaves(value: Value) -> Iterator[tuple[str, Value]]:
    """The leaves of a value with their paths; of a part that may hold others, Unknown too."""
    if isinstance(value, Unknown | AnyTree):
        yield "", Unknown()
        return
    parts = children(value)
    if parts is None:
        yield "", value
        return
    if getattr(value, "open", False):
        yield "[?]", Unknown()
    for key, part in parts:
        yield from ((f"{path_step(value, key)}{path}", leaf) for path, leaf in _leaves(part))


def observe(texts: Sequence[str], python: str = sys.executable) -> list[dict[str, Any]]:
    """What jax makes of programs."""
    command = [python, str(Path(__file__).with_name("observe.py"))]
    done = subprocess.run(
        command,
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        env=simulated(8),
        timeout=1200,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def compare(
    seeds: Sequence[int], release: tuple[int, ...], python: str = sys.executable, make: Maker = program
) -> Outcome:
    """Compare the programs of some seeds."""
    outcome = Outcome()
    for start in range(0, len(seeds), _BATCH):
        texts = [make(seed) for seed in seeds[start : start + _BATCH]]
        for text, seen in zip(texts, observe(texts, python), strict=True):
            note(outcome, text, seen, release)
    return outcome


def note(outcome: Outcome, text: str, seen: dict[str, Any], release: tuple[int, ...]) -> None:
    """Enter one program into the figures."""
    outcome.programs += 1
    arrays, broken, closed = predicted(text, release)
    lines = text.splitlines()
    last = seen["line"] or len(lines) + 1
    for line, actual in seen["arrays"].items():
        outcome.arrays += 1
        layout = arrays.get(line)
        if layout is not None:
            outcome.known += _is_known(layout)
            for difference in _differences(layout, actual):
                outcome.wrong.append(f"{line}: {difference}\n    {_line(lines, line)}\n{text}")
    for number, paths in closed.items():
        seen_there = {path for path in seen["arrays"] if _line_number(path) == number}
        if number < last and paths != seen_there:
            difference = f"paths {sorted(paths ^ seen_there)}"
            outcome.wrong.append(f"{difference}\n    {lines[number - 1].strip()}\n{text}")
    for line, kind in broken.items():
        if line < last and kind != "spec.padded":
            outcome.wrong.append(
                f"{kind} at line {line}, and jax raises nothing there\n    {lines[line - 1].strip()}\n{text}"
            )
    if seen["error"] and _is_layout_error(seen):
        outcome.errors += 1
        if last in broken:
            outcome.predicted += 1
        else:
            key = f"{seen['error']}: {seen['said'].splitlines()[0][:70]}"
            outcome.missed[key] += 1
            outcome.examples.setdefault(key, f"{lines[last - 1].strip()}\n{text}")


def _line_number(path: str) -> int:
    """The line at which a path of a tree begins: 12 of `12[0].mu`."""
    found = re.match(r"\d+", path)
    assert found is not None, path
    return int(found[0])


def _line(lines: list[str], path: str) -> str:
    return lines[_line_number(path) - 1].strip()


def _is_layout_error(seen: dict[str, Any]) -> bool:
    said = f"{seen['error']}: {seen['said']}"
    return seen["error"] in _TYPES or any(one in said for one in _SAYS)


def _is_known(layout: Layout) -> bool:
    return (
        layout.shape is not None
        and None not in layout.shape
        and (layout.mesh is None or layout.spec is not None)
    )


def _differences(layout: Layout, actual: dict[str, Any]) -> Iterator[str]:
    """The parts of a prediction that are not so."""
    if layout.shape is not None and not _agree(layout.shape, actual["shape"]):
        yield f"shape {layout.shape}, not {actual['shape']}"
    if (
        layout.spec is not None
        and actual["spec"] is not None
        and not _agree(layout.spec, [tuple(one) for one in actual["spec"]])
    ):
        yield f"spec {layout.spec}, not {actual['spec']}"
    if layout.memory is not None and not layout.host and layout.memory != (actual["memory"] or "device"):
        yield f"memory {layout.memory}, not {actual['memory']}"
    if layout.device is not None and layout.device != f"device {actual['device']}":
        yield f"{layout.device}, not {actual['device']}"
    if layout.committed is not None and not layout.host and layout.committed != actual["committed"]:
        yield f"committed {layout.committed}"
    if layout.dtype is not None and not layout.host and layout.dtype != actual["dtype"].partition("<")[0]:
        yield f"dtype {layout.dtype}, not {actual['dtype']}"


def _agree(known: Sequence[Any], actual: Sequence[Any]) -> bool:
    return len(known) == len(actual) and all(
        one is None or one == two for one, two in zip(known, actual, strict=True)
    )


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    version = tuple(map(int, (sys.argv[3] if len(sys.argv) > 3 else "0.12.0").split(".")))
    maker = linen_programs.program if sys.argv[4:] == ["linen"] else program
    result = compare(range(first, first + count), version, make=maker)
    for one in result.wrong[:8]:
        print(one)
    for key, number in result.missed.most_common(12):
        print(number, key, "\n      ", result.examples[key].splitlines()[0])
    print(result)
