"""Comparison of predicted layouts with those of real programs at their jit boundaries, as `shardlint run` records
them.

`python scripts/layouts_seen.py 'train.py --steps 3' other.py` runs programs on eight simulated devices and compares.
`--public MIRRORS` takes the public programs of evaluation/programs.toml, laid out from bare repositories below MIRRORS,
and writes evaluation/programs.md; `--only NAME` takes one of them and writes nothing.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import matrix
from checkouts import open_mirror

sys.path.insert(0, str(matrix.ROOT))

from shardlint.config.folders import project_root
from shardlint.run import launch
from shardlint.source.notebook import program_text as program_of_notebook
from tests.layouts.boundaries import Leaf, compare_call, position_of, predict

PAGE = matrix.ROOT / "evaluation" / "programs.md"
PUBLIC = matrix.ROOT / "evaluation" / "programs.toml"
STAND_INS = matrix.ROOT / "evaluation" / "stand_ins"
LAID_OUT = matrix.ROOT / ".matrix" / "programs"
_DEVICES = 8
_SECONDS = 150
_PACKAGES = ("jax", "flax", "equinox")
_VERDICTS = ("known", "partly", "unknown", "wrong")
_RANKS = ("unknown", "partly", "known", "wrong")


@dataclass
class Program:
    """A program to run.

    `settings` are constants of its modules that are replaced, by file and name; `replaced` are files for which one of
    the stand-ins is taken; `stand_ins` are those of libraries; `without` are lines of statements that are left out.
    """

    file: Path
    arguments: list[str] = field(default_factory=list)
    name: str = ""
    repository: str = ""
    commit: str = ""
    path: str = ""
    environment: str = ""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    stand_ins: list[str] = field(default_factory=list)
    without: list[int] = field(default_factory=list)
    importable: bool = False
    """Whether the program expects its repository to be installed."""
    seconds: int = _SECONDS
    changed: str = ""


@dataclass
class Result:
    """How the arrays of a program compare, and how its run ended."""

    program: Program
    leaves: list[Leaf]
    calls: int
    ended: launch.Ended
    failed: list[str]

    def count_verdict(self, verdict: str) -> int:
        """How many arrays have a verdict."""
        return sum(one.verdict == verdict for one in self.leaves)


def public_programs() -> list[Program]:
    """The programs of the table, before they are laid out."""
    given = tomllib.loads(PUBLIC.read_text("utf-8"))
    return [Program(Path(), **one) for one in given["program"]]


def lay_out(program: Program, mirrors: Path) -> None:
    """Write the files of a public program, with its settings, and say where it is."""
    folder = LAID_OUT / program.name
    shutil.rmtree(folder, ignore_errors=True)
    open_mirror(mirrors, program.repository).lay_out(program.commit, folder)
    program.file = folder / program.path
    if program.file.suffix == ".ipynb":
        text = program_of_notebook(program.file, program.file.read_bytes())
        assert text is not None, program.path
        program.file = program.file.with_suffix(".py")
        program.file.write_bytes(text)
    if program.without:
        program.file.write_text(leave_out(program.file.read_text("utf-8"), program.without), "utf-8")
    for path, stand_in in program.replaced.items():
        shutil.copyfile(STAND_INS / stand_in, folder / path)
    for path, settings in program.settings.items():
        file = folder / path
        file.write_text(replace_constants(file.read_text("utf-8"), settings), "utf-8")


def leave_out(text: str, numbers: Sequence[int]) -> str:
    """A module without the statements that begin at some lines."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno in numbers:
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = "\n"
            lines[node.lineno - 1] = f"{' ' * node.col_offset}pass\n"
    return "".join(lines)


def replace_constants(text: str, settings: Mapping[str, Any]) -> str:
    """A module with other values in the assignments, keywords and defaults of options of some names.

    Raises `KeyError` for a name that has none.
    """
    lines = text.encode().splitlines(keepends=True)
    left = set(settings)
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in settings:
                found.append((value, name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in settings:
                found.append((value, name))
            case ast.keyword(arg=str(name), value=value) if f"{name}=" in settings:
                found.append((value, f"{name}="))
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(str(name)), *_], keywords=given):
                found += ((one.value, name) for one in given if one.arg == "default" and name in settings)
    for value, name in sorted(found, key=lambda one: (one[0].lineno, one[0].col_offset), reverse=True):
        left.discard(name)
        assert value.end_lineno is not None and value.end_col_offset is not None
        last = lines[value.end_lineno - 1][value.end_col_offset :]
        first = lines[value.lineno - 1][: value.col_offset]
        lines[value.lineno - 1 : value.end_lineno] = [first + repr(settings[name]).encode() + last]
    if left:
        raise KeyError(", ".join(left))
    return b"".join(lines).decode()


def python_of(program: Program) -> Path:
    """The Python that runs a program: that of this process, or of an environment of the matrix by its name."""
    if not program.environment:
        return Path(sys.executable)
    return matrix.prepare_environment(
        next(one for one in matrix.RELEASES if one.environment_folder.name == program.environment)
    )


def installed_releases(python: Path) -> dict[str, tuple[int, ...]]:
    """The releases that a Python has of what predictions depend on."""
    code = (
        "import importlib.metadata as m, json\n"
        "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    releases = {name: re.findall(r"\d+", found[name])[:3] for name in _PACKAGES if name in found}
    return {name: tuple(map(int, numbers)) for name, numbers in releases.items()}


def observe_program(program: Program, python: Path) -> tuple[list[dict[str, Any]], launch.Ended, list[str]]:
    """The calls at jit boundaries that a run of the program records, how it ended, and what could not be recorded.

    Those of a public program are kept until its text, its environment or what records them changes.
    """
    kept = LAID_OUT / f"{program.name}.json"
    digest = _run_digest(program, python)
    if program.name and kept.is_file():
        known = json.loads(kept.read_text("utf-8"))
        if known["digest"] == digest:
            return known["seen"], launch.Ended(**known["ended"]), known["failed"]
    seen, ended, failed = _observe_now(program, python)
    if program.name:
        kept.write_text(
            json.dumps({"digest": digest, "seen": seen, "ended": asdict(ended), "failed": failed}), "utf-8"
        )
    return seen, ended, failed


def _run_digest(program: Program, python: Path) -> str:
    recorder = matrix.ROOT / "shardlint" / "run" / "observe"
    recorders = (recorder / f"{name}.py" for name in ("boundaries", "layout", "called"))
    parts = [file.read_bytes() for file in (program.file, *recorders, *STAND_INS.rglob("*.py"))]
    return hashlib.sha256(b"\0".join([repr(program).encode(), str(python).encode(), *parts])).hexdigest()


def _observe_now(program: Program, python: Path) -> tuple[list[dict[str, Any]], launch.Ended, list[str]]:
    with tempfile.TemporaryDirectory(prefix="seen-") as name, tempfile.TemporaryFile() as output:
        folder = Path(name).resolve()
        env = launch.run_environment(folder, _DEVICES, True, dict(os.environ))
        stand_ins = [str(STAND_INS / one) for one in program.stand_ins]
        own = [str(LAID_OUT / program.name)] if program.importable else []
        env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], *stand_ins, *own])
        env |= {"MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
        words = [str(python), str(program.file), *program.arguments]
        before = Path.cwd()
        os.chdir(program.file.parent)
        try:
            ended = _run_into(output, words, env, folder, program.seconds)
        finally:
            os.chdir(before)
        if ended.code:
            output.seek(0)
            print(output.read().decode("utf-8", "replace")[-2000:], file=sys.stderr)
        seen, failed = [], []
        for file in sorted((folder / "observed").glob("*.jsonl")):
            for line in file.read_text("utf-8").splitlines():
                one = json.loads(line)
                if one["kind"] == "boundary":
                    seen.append(one)
                elif one["kind"] == "failed":
                    failed.append(f"{one['where']}: {one['error']}")
    return seen, ended, failed


def _run_into(output: Any, words: Sequence[str], env: dict[str, str], folder: Path, seconds: float) -> launch.Ended:
    """Run with what the program prints in a file."""
    kept = os.dup(1), os.dup(2)
    try:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        return launch.run_program(words, env, folder, seconds)
    finally:
        for number, saved in enumerate(kept, 1):
            os.dup2(saved, number)
            os.close(saved)


def compare_program(program: Program) -> Result:
    """Predict and observe a program."""
    python = python_of(program)
    began = time.monotonic()
    plain, supposed = predict(program.file, installed_releases(python))
    print(f"{program.name or program.file}: predicted in {time.monotonic() - began:.1f} s", file=sys.stderr)
    seen, ended, failed = observe_program(program, python)
    root = str(project_root(program.file))
    leaves: list[Leaf] = []
    calls = 0
    told: set[str] = set()
    for one in seen:
        place = position_of(one["stack"][0])
        if not place[0].startswith(root):
            continue
        text = json.dumps(one, sort_keys=True)
        if text in told:
            continue
        told.add(text)
        calls += 1
        first = compare_call(one, plain.get(place, []))
        second = compare_call(one, supposed.get(place, []))
        leaves += [
            max(mine, other, key=lambda leaf: _RANKS.index(leaf.verdict))
            for mine, other in zip(first, second, strict=False)
        ] + first[len(second) :]
    return Result(program, leaves, calls, ended, failed)


def format_result(found: Result, every: bool = False) -> Iterator[str]:
    """The figures of a program and what of it is not known."""
    counts = ", ".join(f"{found.count_verdict(one)} {one}" for one in _VERDICTS)
    name = found.program.name or found.program.file.name
    ended = f"exit {found.ended.code}, {found.ended.seconds:.0f} s"
    yield f"{name}: {found.calls} calls, {len(found.leaves)} arrays: {counts} ({ended})"
    yield from (f"  not recorded: {one}" for one in found.failed)
    reasons = Counter(
        f"{Path(one.place[0]).name}:{one.place[1]}:{one.place[2]}: {one.verdict}: {one.why}"
        for one in found.leaves
        if one.verdict in ("partly", "unknown")
    )
    yield from (f"  {number:4} {text}" for text, number in reasons.most_common(40))
    for one in found.leaves:
        if one.verdict == "wrong" or every:
            place = f"{Path(one.place[0]).name}:{one.place[1]}"
            yield f"  {one.verdict}: {place} {one.path}: {one.why}; predicted {one.predicted}, actual {one.actual}"


def format_page(results: Sequence[Result]) -> str:
    """Format evaluation/programs.md."""
    lines = [
        "# Predicted layouts compared with those of real programs",
        "",
        "`scripts/layouts_seen.py --public` runs public programs under `shardlint run` on eight simulated devices. It",
        "records the layouts of arguments and results of jitted functions, and compares them with the predictions",
        "of `check` at the same calls. Large sizes were made small (`programs.toml`), and data sets are stand-ins.",
        "",
        "*Known*: the shape and, on a mesh, the axes of each dimension were predicted. *Partly*: one of the two.",
        "",
        "| program | calls | arrays | known | partly | unknown | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in results:
        counts = " | ".join(str(one.count_verdict(verdict)) for verdict in _VERDICTS)
        name = f"{one.program.repository} {one.program.path}"
        lines.append(f"| {name} | {one.calls} | {len(one.leaves)} | {counts} |")
    arrays = sum(len(one.leaves) for one in results)
    sums = [sum(one.count_verdict(verdict) for one in results) for verdict in _VERDICTS]
    shares = " | ".join(f"{count:,} ({count / max(1, arrays):.0%})" for count in sums)
    lines.append(f"| all {len(results)} | {sum(one.calls for one in results)} | {arrays:,} | {shares} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="a path, with arguments in one word")
    parser.add_argument("--public", type=Path, metavar="MIRRORS", help="take the public programs")
    parser.add_argument("--only", action="append", metavar="NAME", help="of these, one by its name")
    parser.add_argument("--every", action="store_true", help="print every array")
    asked = parser.parse_args()
    programs = []
    for words in map(shlex.split, asked.programs):
        programs.append(Program(Path(words[0]).resolve(), words[1:]))
    if asked.public:
        wanted = [one for one in public_programs() if not asked.only or one.name in asked.only]
        for one in wanted:
            lay_out(one, asked.public)
        programs += wanted
    results = []
    for program in programs:
        results.append(compare_program(program))
        print("\n".join(format_result(results[-1], asked.every)), flush=True)
    if asked.public and not asked.only:
        PAGE.write_text(format_page(results), "utf-8")
    return 1 if any(one.count_verdict("wrong") for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
