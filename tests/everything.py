"""Findings of all rules in all fixtures, each folder a project. Tests that use it are of one xdist group: it takes a
minute.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rules_api.rule import Fix

FIXTURES = Path(__file__).parent.parent / "fixtures"
GROUP = "everything"


class Told(NamedTuple):
    """A finding, with all that is said of it."""

    path: Path
    code: str
    start: int
    end: int
    label: str
    message: str
    certainty: Certainty
    why: str
    fix: Fix | None


def told(files: Iterable[Path], codes: tuple[str, ...]) -> list[Told]:
    """Return the findings of rules in files."""
    report = check_paths(list(files), Options(certainty=Certainty.POSSIBLE, select=codes))
    assert not report.failed
    return [
        Told(
            one.path, found.rule.code, found.start, found.end, found.label, found.message,
            found.certainty, found.why, found.fix,
        )
        for one in report.reports
        for found in one.findings
    ]  # fmt: skip


@cache
def apart() -> Path:
    """A copy of the fixtures in which each folder is a project of its own, and so small."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for rule in sorted(FIXTURES.glob("SL*")):
        shutil.copytree(rule, folder / rule.name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / rule.name / "pyproject.toml").touch()
    return folder


@cache
def all_told() -> list[Told]:
    """Return the findings of all rules in all fixtures."""
    return told([apart()], ("all",))
