"""The check of several files, by one process or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.engine.progress import report_progress
from shardlint.engine.results import Outcome
from shardlint.source.timing import clock

if TYPE_CHECKING:
    from shardlint.engine.one_file import Checker


def check_files(files: Sequence[Path], checker: Checker) -> Iterator[Outcome]:
    """Check files: the outcome of each, in order; by several processes where that is faster."""
    from shardlint.engine.workers import side_by_side, worth_it

    if worth_it(files) and not clock.running:  # times of several processes do not add up
        yield from side_by_side(files, checker)
        return
    projects: dict[str, list[Path]] = {}
    for file in files:
        projects.setdefault(checker.root_for(file), []).append(file)
    # A project whole, also where another one lies in it: what is parsed of it is let go of when others come.
    together = [file for inside in projects.values() for file in inside]
    found = dict(zip(together, report_progress(map(checker.check_file, together), len(files)), strict=True))
    yield from (found[file] for file in files)
