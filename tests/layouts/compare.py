"""What is predicted of programs beside what jax makes of them.

    python -m tests.layouts.compare FIRST COUNT [RELEASE]

prints the differences of so many generated programs, and the figures.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.layouts.interpreter import Interpreter, Modules
from shardlint.layouts.layout import Layout
from shardlint.libraries import FUNCTIONS
from shardlint.model.project import Project
from shardlint.source.text import decode
from tests.layouts.generated import program
from tests.programs import simulated

_BATCH = 100
# Errors about layouts, by their types, and by what others say.
_TYPES = ("ShardingTypeError", "IndivisibleError")
_SAYS = ("incompatible devices", "memory_space", "sharding", "shard_map", "rank at least", "carry", "Mesh", "vmap should", "replicated",
         "AssertionError", "PartitionSpec", "unsharded", "axis_index")  # fmt: skip


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


def predicted(text: str, release: tuple[int, ...]) -> tuple[dict[int, Layout], dict[int, str]]:
    """The layouts of the arrays that a program binds, and the contracts it breaks, by line."""
    path = Path("/program/main.py")
    source = decode(path, text.encode())
    project = Project(path.parent, {path: source})
    facts = project.checked(source, path)
    run = Interpreter(Modules(project, FUNCTIONS, {"jax": release}), facts)
    run.run()
    arrays = {
        node.lineno: run.layouts[node.value]
        for node in ast.walk(facts.tree)
        if isinstance(node, ast.Assign) and isinstance(run.layouts.get(node.value), Layout)
    }
    return arrays, {one.place.line: one.kind for one in run.violations.values()}


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


def compare(seeds: Sequence[int], release: tuple[int, ...], python: str = sys.executable) -> Outcome:
    """Compare the programs of some seeds."""
    outcome = Outcome()
    for start in range(0, len(seeds), _BATCH):
        texts = [program(seed) for seed in seeds[start : start + _BATCH]]
        for text, seen in zip(texts, observe(texts, python), strict=True):
            _one(outcome, text, seen, release)
    return outcome


def _one(outcome: Outcome, text: str, seen: dict[str, Any], release: tuple[int, ...]) -> None:
    outcome.programs += 1
    arrays, broken = predicted(text, release)
    lines = text.splitlines()
    last = seen["line"] or len(lines) + 1
    for line, actual in seen["arrays"].items():
        outcome.arrays += 1
        layout = arrays.get(int(line))
        if layout is not None:
            outcome.known += _is_known(layout)
            for difference in _differences(layout, actual):
                outcome.wrong.append(f"{difference}\n    {lines[int(line) - 1].strip()}\n{text}")
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
    if layout.dtype is not None and not layout.host and layout.dtype != actual["dtype"]:
        yield f"dtype {layout.dtype}, not {actual['dtype']}"


def _agree(known: Sequence[Any], actual: Sequence[Any]) -> bool:
    return len(known) == len(actual) and all(
        one is None or one == two for one, two in zip(known, actual, strict=True)
    )


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    version = tuple(map(int, (sys.argv[3] if len(sys.argv) > 3 else "0.12.0").split(".")))
    result = compare(range(first, first + count), version)
    for one in result.wrong[:8]:
        print(one)
    for key, number in result.missed.most_common(12):
        print(number, key, "\n      ", result.examples[key].splitlines()[0])
    print(result)
