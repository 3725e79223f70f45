"""Cost of a run after a statement was added to one function, with everything else cached from the run before."""

from __future__ import annotations

import ast
import random
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import corpus
import peers
from timing import Command

PROJECTS = ("maxtext", "axlearn", "jax")
_SEED = 1


@dataclass
class Edited:
    """A project, and the processor time of the run after each edit, in seconds."""

    name: str
    files: int
    seconds: list[float] = field(default_factory=list)

    @property
    def percentile_95(self) -> float:
        """Return the 95th percentile."""
        return sorted(self.seconds)[int(0.95 * len(self.seconds)) - (len(self.seconds) < 20)]


def measure_edits(work: Path, programs: Path, count: int) -> list[Edited]:
    """Edit `count` functions of each project, chosen by chance but always the same, one at a time."""
    found = []
    for name in PROJECTS:
        package = corpus.load_package(work, name)
        folder, cache = work / "edits" / name, work / "edits-cache"
        for old in (folder, cache):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(package.folder, folder)
        (folder / ".git").mkdir(exist_ok=True)
        command = Command(
            f"{name}, edited",
            [*peers.shardlint_command(programs), str(folder)],
            variables={"SHARDLINT_CACHE_DIR": str(cache)},
        )
        command.run_once(work)
        edited = Edited(f"{package.name} {package.release}", package.files)
        for path, before, after in _make_edits(folder, count):
            path.write_bytes(after)
            edited.seconds.append(command.run_once(work).cpu)
            path.write_bytes(before)
            command.run_once(work)  # the next edit is to be the only one
        print(
            f"{edited.name}: median {statistics.median(edited.seconds):.2f} s, p95 {edited.percentile_95:.2f} s",
            flush=True,
        )
        found.append(edited)
    return found


def _make_edits(folder: Path, count: int) -> Iterator[tuple[Path, bytes, bytes]]:
    """Files, what they hold, and that with `edited_value = 0` as the first statement of a function."""
    chance, files, made = random.Random(_SEED), sorted(corpus.python_files(folder)), 0
    while made < count:
        path = chance.choice(files)
        before = path.read_bytes()
        try:
            tree = ast.parse(before)
        except (SyntaxError, ValueError):
            continue
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        first = chance.choice(functions).body[0] if functions else None
        lines = before.splitlines(keepends=True)
        if first is None or lines[first.lineno - 1][: first.col_offset].strip():
            continue  # none, or on the line of the header
        lines.insert(first.lineno - 1, b" " * first.col_offset + b"edited_value = 0\n")
        made += 1
        yield path, before, b"".join(lines)


def edit_table(edited: list[Edited]) -> list[str]:
    """The times for each project."""
    return [
        "| | files | edits | median, s | p95, s | worst, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {one.name} | {one.files:,} | {len(one.seconds)} | {statistics.median(one.seconds):.2f}"
            f" | {one.percentile_95:.2f} | {max(one.seconds):.2f} |"
            for one in edited
        ),
    ]
