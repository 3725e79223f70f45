"""Check folders in several ways, which must all give one answer: order, subset, processes, state of the cache.

    python scripts/one_answer.py FOLDER...
    python scripts/one_answer.py --generated 200 --seed 1
    python scripts/one_answer.py --edits 40 FOLDER...

Each folder is copied first, for a file of the copy is changed. Prints what differs and the counts; the exit code is 1
where anything differs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from random_edits import edit_folder

import shardlint.engine.workers as workers
from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths

Answer = dict[str, list[tuple[object, ...]]]


def findings_by_file(files: list[Path], cached: bool = False) -> Answer:
    """Return the findings in each file, by its path. Raises `RuntimeError` if a check failed."""
    report = check_paths(files, Options(certainty=Certainty.POSSIBLE), cached=cached)
    if report.failed:
        raise RuntimeError(f"the check failed: {report.failed}")
    return {
        str(one.path): [
            (found.rule.code, found.start, found.end, found.message, found.help, found.certainty, found.why, found.fix)
            for found in one.findings
        ]
        for one in report.reports
    }  # fmt: skip


def ways_to_check(files: list[Path], chance: random.Random) -> Iterator[tuple[str, Answer, Answer]]:
    """The name of each way, what it gives and what it should."""
    expected = findings_by_file(files)

    def answer_part(some: list[Path]) -> Answer:
        return {path: told for path, told in expected.items() if Path(path) in some}

    yield "reversed", findings_by_file(files[::-1]), expected
    yield "another order", findings_by_file(chance.sample(files, len(files))), expected
    half = chance.sample(files, (len(files) + 1) // 2)
    yield "half of the files", findings_by_file(half), answer_part(half)
    one = [chance.choice(files)]
    yield f"{one[0].name} alone", findings_by_file(one), answer_part(one)
    few, processors = workers._FILES, workers._count_processors
    workers._FILES, workers._count_processors = 2, lambda: 2
    try:
        yield "two processes", findings_by_file(files), expected
    finally:
        workers._FILES, workers._count_processors = few, processors
    yield (
        "a half-warm cache",
        (findings_by_file(half, cached=True), findings_by_file(files, cached=True))[1],
        expected,
    )
    yield "a warm cache", findings_by_file(files, cached=True), expected
    changed = chance.choice(files)
    changed.write_bytes(b"import jax\njax.set_mesh(None)\n")
    expected = findings_by_file(files)
    yield f"a cache from before {changed.name} changed", findings_by_file(files, cached=True), expected


def answers_after_edits(
    folder: Path, chance: random.Random, count: int
) -> Iterator[tuple[str, Answer, Answer]]:
    """The same after each of some edits, with a cache that has seen all those before."""
    findings_by_file(_python_files(folder), cached=True)
    for number in range(count):
        what = edit_folder(folder, chance)
        files = _python_files(folder)
        yield f"edit {number + 1}, {what}", findings_by_file(files, cached=True), findings_by_file(files)


def _python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.is_file() and not path.is_symlink())


def generate_project(folder: Path, seed: int) -> None:
    """A project as the tests make them."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.test_one_answer import project

    folder.mkdir()
    project(folder, seed)


def main() -> int:
    """Check all folders; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--generated", type=int, default=0, help="how many projects to make up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", type=int, default=0, help="compare after each of so many edits instead")
    asked = parser.parse_args()
    jobs: list[Path | int] = [*asked.folders, *range(asked.seed, asked.seed + asked.generated)]
    done = differ = findings = 0
    for job in jobs:
        with tempfile.TemporaryDirectory() as top:
            os.environ["SHARDLINT_CACHE_DIR"] = f"{top}/cache"
            folder = Path(os.path.realpath(top), "project")
            if isinstance(job, int):
                generate_project(folder, job)
            else:
                shutil.copytree(job, folder, symlinks=True, ignore_dangling_symlinks=True)
            files = _python_files(folder)
            if not files:
                continue
            chance = random.Random(f"{job} {asked.seed}" if asked.edits else str(job))
            looked = (
                answers_after_edits(folder, chance, asked.edits)
                if asked.edits
                else ways_to_check(files, chance)
            )
            for name, found, expected in looked:
                done += 1
                findings += sum(map(len, expected.values()))
                for path in sorted({*found, *expected}):
                    if found.get(path) != expected.get(path):
                        differ += 1
                        print(
                            f"{job}: {name}: {path}\n  {found.get(path)}\n  {expected.get(path)}", flush=True
                        )
        print(f"{job}: {len(files)} files", flush=True)
    print(f"{len(jobs)} projects, {done} ways, {findings} findings, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
