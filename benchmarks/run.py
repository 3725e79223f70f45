"""How long checking takes, beside other tools on the same files: `make bench` writes evaluation/speed.md.

Everything is timed in one run, in turn. The corpus and the tools are kept in `.benchmark/`; delete it to start over.
Needs Linux or macOS (`os.wait4` tells what a child and its children used).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import checkers
import corpus
import edits
import hook
import peers
import report
import timing
from corpus import Package
from timing import Command

HERE = Path(__file__).resolve().parent


class Edit:
    """Appends a comment to one file of the corpus, another one each time, and takes it back."""

    def __init__(self, work: Path, files: list[Path], settle: list[str], variables: dict[str, str]) -> None:
        self._work = work
        self._files = files
        self._settle = settle
        self._variables = variables
        self._turn = 0

    def make_edit(self) -> None:
        """Change the next file."""
        restore_file(self._work)
        # Prime, so that neighbours in one folder do not follow each other.
        path = self._files[self._turn * 7919 % len(self._files)]
        self._turn += 1
        kept = self._work / "edited"
        kept.mkdir()
        shutil.copy2(path, kept / "text.py")
        (kept / "path.txt").write_text(str(path))
        with path.open("a") as file:
            file.write(f"\n# changed {self._turn}\n")

    def undo_edit(self) -> None:
        """Put the file back, and let the tool see that: the next change is to be the only one."""
        restore_file(self._work)
        environment = {**os.environ, **self._variables}
        subprocess.run(self._settle, cwd=self._work, env=environment, capture_output=True)


def restore_file(work: Path) -> None:
    """Put back a file that `Edit` has changed, in this run or in one that was ended."""
    kept = work / "edited"
    if (kept / "path.txt").is_file():
        shutil.copy2(kept / "text.py", (kept / "path.txt").read_text())
    shutil.rmtree(kept, ignore_errors=True)


def whole_corpus(work: Path, programs: Path, packages: list[Package], with_slow: bool) -> dict[str, Command]:
    """The commands over the corpus; the slow tools get a part of it."""
    everything = str(work / "corpus")
    ours = peers.shardlint_command(programs)
    uncached, cached = [*ours, "--no-cache", everything], [*ours, everything]
    ruff = peers.ruff_command(work)
    uncached_ruff = [*ruff, "--no-cache", everything]
    cached_ruff = [*ruff, "--cache-dir", str(work / "ruff-cache"), everything]
    filled = {"SHARDLINT_CACHE_DIR": str(work / "shardlint-cache")}
    new = work / "shardlint-cache-new"
    files = [
        path
        for package in packages
        for path in sorted(corpus.python_files(package.folder))
        if b"jax" in path.read_bytes()
    ]
    edit, ruff_edit = Edit(work, files, cached, filled), Edit(work, files, cached_ruff, {})
    commands = {
        "cold": Command("shardlint, cold", uncached),
        "written": Command(
            "shardlint, cold, cache written",
            cached,
            variables={"SHARDLINT_CACHE_DIR": str(new)},
            before=lambda: shutil.rmtree(new, ignore_errors=True),
        ),
        "warm": Command("shardlint, warm", cached, variables=filled),
        "changed": Command(
            "shardlint, warm, one file changed",
            cached,
            variables=filled,
            before=edit.make_edit,
            after=edit.undo_edit,
        ),
        "ruff cold": Command("ruff, cold", uncached_ruff),
        "ruff warm": Command("ruff, warm", cached_ruff),
        "ruff changed": Command(
            "ruff, warm, one file changed", cached_ruff, before=ruff_edit.make_edit, after=ruff_edit.undo_edit
        ),
    }
    size = sum(package.size for package in packages)
    for peer in peers.slow_peers(work) if with_slow else ():
        part = corpus.select_packages(packages, peer.packages)
        given, scale = [package.folder for package in part], size / sum(package.size for package in part)
        if peer.fails_on is not None:
            given = [path for folder in given for path in sorted(corpus.python_files(folder))]
            given = [path for path in given if not peer.fails_on(path.read_bytes())]
            scale = size / sum(path.stat().st_size for path in given)
        what = f"{peer.name}, scaled" if scale > 1 else peer.name
        commands[peer.name] = Command(what, [*peer.command, *map(str, given)], scale=scale)
        if peer.name == peers.FLAKE8:
            torch = corpus.files_holding(packages, b"torch", size // 60)
            scale = size / sum(path.stat().st_size for path in torch)
            arguments = [*peer.command, *map(str, torch)]
            what = f"{peer.name}, only files with `torch`, scaled"
            commands[f"{peer.name}, torch"] = Command(what, arguments, scale=scale)
    return commands


def one_file(work: Path, programs: Path, with_slow: bool) -> dict[str, Command]:
    """The commands over one file, which was edited just before, as it is when a commit hook runs."""
    one = corpus.build_single_files(work)
    ours, ruff = peers.shardlint_command(programs), [*peers.ruff_command(work), "--no-cache"]
    clean, finding, fixable = (one / f"{name}.py" for name in ("clean", "finding", "fixable"))
    filled = {"SHARDLINT_CACHE_DIR": str(work / "shardlint-cache")}
    turn = iter(range(1_000_000))

    def edit_file(path: Path, text: str) -> None:
        path.write_text(f"{text}# edit {next(turn)}\n")

    def is_fixed() -> None:
        if fixable.read_text() == corpus.FIXABLE:
            raise SystemExit(f"`shardlint fix` did not change {fixable}")

    commands = {
        "pass": Command("`python -c pass`", [*peers.interpreter_command(programs), "-c", "pass"], (0,)),
        "clean": Command(
            "shardlint, a clean file",
            [*ours, str(clean)],
            (0,),
            variables=filled,
            before=lambda: edit_file(clean, corpus.CLEAN),
        ),
        "finding": Command(
            "shardlint, a file with a finding",
            [*ours, str(finding)],
            (1,),
            variables=filled,
            before=lambda: edit_file(finding, corpus.FINDING),
        ),
        "fix": Command(
            "`shardlint fix`",
            [*peers.shardlint_command(programs, "fix"), str(fixable)],
            (0,),
            variables=filled,
            before=lambda: fixable.write_text(corpus.FIXABLE),
            after=is_fixed,
        ),
        "ruff clean": Command("ruff, a clean file", [*ruff, str(clean)], (0,)),
        "ruff finding": Command(
            "ruff, a file with a finding", [*ruff, "--select", "ALL", str(finding)], (1,)
        ),
    }
    for peer in peers.slow_peers(work) if with_slow else ():
        if peer.name != peers.SEMGREP:  # it was told that the corpus is all there is
            commands[f"{peer.name} clean"] = Command(
                f"{peer.name}, a clean file", [*peer.command, str(clean)]
            )
    return commands


def measure_commands(work: Path, commands: Iterable[Command], rounds: int) -> None:
    """Run all in turn, `rounds` times, and once more for the memory, which costs time to look at."""
    commands = list(commands)
    for turn in range(rounds + 1):
        sample = turn == rounds
        for command in commands:
            run = command.run_once(work, sample)
            command.runs.append(run)
            label = "memory" if sample else f"{turn + 1}/{rounds}"
            print(f"{label} {command.what}: {run.wall:.3f} s, {run.peak_memory / 1e6:.0f} MB", flush=True)


def main() -> None:
    """Build, time, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs over the corpus (default 3)")
    parser.add_argument("--short-rounds", type=int, default=11, help="runs over one file (default 11)")
    parser.add_argument(
        "--without-slow", action="store_true", help="leave out jaxlint, semgrep, flake8 and Fixit"
    )
    parser.add_argument("--checker-rounds", type=int, default=3, help="runs of type checkers (default 3)")
    parser.add_argument("--edits", type=int, default=40, help="edits of each project (default 40)")
    parser.add_argument(
        "--mirrors", type=Path, help="OWNER+NAME/repo, bare: measure the pre-commit hook in them"
    )
    parser.add_argument("--packages", nargs="+", metavar="NAME", help="only these of the packages")
    parser.add_argument("--work", type=Path, default=HERE.parent / ".benchmark", help="where all is kept")
    parser.add_argument("--output", type=Path, default=HERE.parent / "evaluation" / "speed.md", help="the report")
    given = parser.parse_args()
    timing.end_when_told()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    restore_file(work)
    pins = [pin for pin in corpus.PACKAGES if not given.packages or pin.split("==")[0] in given.packages]
    packages = corpus.build_corpus(work, pins)
    programs = peers.install_shardlint(work)
    whole = whole_corpus(work, programs, packages, not given.without_slow)
    one = one_file(work, programs, not given.without_slow)
    for package in packages:
        for path in corpus.python_files(package.folder):
            path.read_bytes()  # no command is to pay for fetching the files from the disk
    for cache in ("shardlint-cache", "ruff-cache"):
        shutil.rmtree(work / cache, ignore_errors=True)
    print("filling the caches", flush=True)
    for command in (whole["warm"], whole["ruff warm"], *one.values()):
        command.run_once(work)  # not measured: also compiles modules
    measure_commands(work, one.values(), given.short_rounds)
    measure_commands(work, whole.values(), given.rounds)
    timed = checkers.timed_projects(work, programs)
    checkers.measure_checkers(work, timed, given.checker_rounds)
    edited = edits.measure_edits(work, programs, given.edits)
    mirrors = given.mirrors
    hooked = hook.measure_hook(work, str(programs / "shardlint"), mirrors.resolve()) if mirrors is not None else []
    findings = same_findings(work, whole["cold"], whole["warm"])
    runs = given.rounds, given.short_rounds, given.checker_rounds
    text = report.render_page(work, programs, packages, whole, one, timed, edited, hooked, findings, runs)
    given.output.write_text(text, "utf-8")
    print(text)


def same_findings(work: Path, cold: Command, warm: Command) -> str:
    """Return the findings of shardlint in short form. Stop the benchmark if the cache gives other findings."""
    said = []
    for command in (cold, warm):
        environment = {**os.environ, **command.variables}
        ended = subprocess.run(command.arguments, cwd=work, env=environment, capture_output=True, text=True)
        said.append(ended.stdout.splitlines())
    if said[0] != said[1]:
        raise SystemExit("with the cache, shardlint says something else than without")
    return said[0][-1].partition(".")[0] if said[0] else "nothing said"


if __name__ == "__main__":
    main()
