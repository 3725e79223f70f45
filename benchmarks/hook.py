"""Cost of the pre-commit hook after a function was added to a file, and again without a change.

    python benchmarks/hook.py FOLDER [SHARDLINT]

FOLDER holds OWNER+NAME/repo, bare git repositories. Prints a table.
"""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from timing import Command

REPOSITORIES = ("AI-Hypercomputer+maxtext", "apple+axlearn", "erfanzar+EasyDeL")
FILES = 12
_SEED = 1
_ADDED = b"\n\ndef added_function(x):\n    return x\n"
_PATTERNS = ("*.py", "*.pyi", "*.ipynb", "*.md", "*.toml", "*.cfg", "*.txt")


@dataclass
class Hooked:
    """A repository, and the processor time of the hook for each file, in seconds."""

    name: str
    fresh: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)


def measure_hook(work: Path, shardlint: str, mirrors: Path) -> list[Hooked]:
    """Run the hook twice on each of `FILES` files of each repository, chosen by chance but always the same."""
    return [_measure_hook(work, shardlint, mirrors / name / "repo") for name in REPOSITORIES]


def _measure_hook(work: Path, shardlint: str, mirror: Path) -> Hooked:
    folder, cache, filled = (work / f"hook-{name}" for name in ("files", "cache", "filled"))
    for old in (folder, cache, filled):
        shutil.rmtree(old, ignore_errors=True)
    _run_git(work, "clone", "-q", "--shared", "--no-checkout", str(mirror), str(folder))
    _run_git(folder, "sparse-checkout", "set", "--no-cone", *_PATTERNS)
    _run_git(folder, "checkout", "-q", "HEAD")
    variables = {"SHARDLINT_CACHE_DIR": str(cache)}
    Command("filling the cache", [shardlint, "check", str(folder)], variables=variables).run_once(work)
    shutil.copytree(cache, filled)
    commit = _run_git(folder, "rev-parse", "--short=12", "HEAD")
    hooked = Hooked(f"{mirror.parent.name.replace('+', '/')} at {commit}")
    for path in _sample_files(folder):
        before = path.read_bytes()
        path.write_bytes(before + _ADDED)
        command = Command(
            "the hook", [shardlint, "check", "--diff-base", "HEAD", str(path)], variables=variables
        )
        hooked.fresh.append(command.run_once(work).cpu)
        hooked.again.append(command.run_once(work).cpu)
        print(
            f"{path.relative_to(folder)}: {hooked.fresh[-1]:.2f} s, again {hooked.again[-1]:.2f} s",
            flush=True,
        )
        path.write_bytes(before)
        shutil.rmtree(cache)
        shutil.copytree(filled, cache)
    return hooked


def _run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _sample_files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.rglob("*.py") if b"jax" in path.read_bytes())
    return random.Random(_SEED).sample(files, FILES)


def percentile_90(seconds: list[float]) -> float:
    """Return the 90th percentile."""
    return sorted(seconds)[int(0.9 * len(seconds))]


def hook_section(hooked: list[Hooked]) -> list[str]:
    """The times for each repository, as a section of the report."""
    return [
        "## The pre-commit hook",
        "",
        "| | files | median, s | p90, s | again, median, s | again, p90, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {one.name} | {len(one.fresh)} | {statistics.median(one.fresh):.2f} | {percentile_90(one.fresh):.2f}"
            f" | {statistics.median(one.again):.2f} | {percentile_90(one.again):.2f} |"
            for one in hooked
        ),
        "",
        "Processor time of `shardlint check --diff-base HEAD FILE` after a function was added at the end of a file, and"
        " of a second run. The cache is that of a run over the repository before the edit.",
        "",
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        program = sys.argv[2] if len(sys.argv) > 2 else str(Path(sys.executable).parent / "shardlint")
        print(*hook_section(measure_hook(Path(made), program, Path(sys.argv[1]).resolve())), sep="\n")
