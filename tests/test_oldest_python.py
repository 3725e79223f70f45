"""The oldest Python that is supported, where it is present: every rule loads, and finds there what it finds here."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.everything import GROUP, all_told, apart

# One worker makes the environment that both tests use, and asks what is found here.
pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group(GROUP)]

ROOT = Path(__file__).resolve().parent.parent
LOADING = """
    import sys
    from pathlib import Path

    from shardlint.engine.one_file import Checker
    from shardlint.engine.results import Options

    path = Path(sys.argv[1])
    for root in (path / "rules" / "shardlint_rules", path / "shardlint" / "model"):
        for file in sorted(root.rglob("*.py")):
            __import__(".".join(file.relative_to(root.parent if root.name != "model" else path).with_suffix("").parts))
    """


CHECKING = """
    import sys
    from pathlib import Path

    from shardlint.config.certainty import Certainty
    from shardlint.engine.run import check_paths
    from shardlint.engine.results import Options

    report = check_paths(list(map(Path, sys.argv[1:])), Options(certainty=Certainty.POSSIBLE, select=("all",)))
    assert not report.failed, report.skipped
    for file in report.reports:
        for found in file.findings:
            print((str(file.path), found.rule.code, found.start, found.end, found.label, found.message))
    """


def oldest() -> str | None:
    """A Python 3.11 that can make an environment, on PATH or of pyenv; None where there is none."""
    found = subprocess.run(
        ["sh", "scripts/python.sh", "3.11"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return found.stdout.strip() if found.returncode == 0 else None


def environment(python: str) -> Path:
    """An environment of that Python with this shardlint and what it needs. It is made once and kept."""
    folder = ROOT / ".matrix" / "python-3.11"
    stamp = folder / "ready"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_name("python-3.11.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of the tests may be making it
        return _made(python, folder, stamp)


def _made(python: str, folder: Path, stamp: Path) -> Path:
    if not stamp.is_file() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        made = subprocess.run(
            ["sh", "scripts/environment.sh", str(folder.relative_to(ROOT)), stamp.name, "-e", "."],
            cwd=ROOT,
            env={**os.environ, "PYTHON": python},
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
    return folder / "bin" / "python"


def ran(python: str, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [python, "-B", "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python() -> str:
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = oldest()
    if found is None:
        pytest.skip("there is no Python 3.11 here")
    return str(environment(found))


def test_every_module_loads(python: str) -> None:
    ran(python, LOADING, str(ROOT))


def test_it_finds_there_what_it_finds_here(python: str) -> None:
    files = [file for name in ("bad.py", "good.py") for file in apart().glob(f"*/{name}")]
    there = ran(python, CHECKING, *map(str, files)).splitlines()
    assert sorted(there) == sorted(repr((str(one.path), *one[1:6])) for one in all_told() if one.path in files)
    assert len(there) > 150
