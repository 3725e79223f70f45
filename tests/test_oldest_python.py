"""The oldest Python that is supported, where it is present: every rule loads, and finds there what it finds here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOADING = """
    import sys
    from pathlib import Path

    from shardlint.checker import Checker
    from shardlint.outcome import Options

    path = Path(sys.argv[1])
    for root in (path / "rules" / "shardlint_rules", path / "shardlint" / "program"):
        for file in sorted(root.rglob("*.py")):
            if file.name != "appending.py":  # it rewrites, and so needs libcst
                __import__(".".join(file.relative_to(root.parent if root.name != "program" else path).with_suffix("").parts))
    """


CHECKING = """
    import sys
    from pathlib import Path

    sys.path.append(sys.argv[1])  # what says where rule packs are; nothing compiled is taken from it

    from shardlint.check import check
    from shardlint.outcome import Options

    report = check([Path(folder) for folder in sys.argv[2:]], Options(pedantic=True))
    assert not report.failed, report.skipped
    for file in report.reports:
        for found in file.findings:
            print(file.path, found.rule.code, found.start, found.end, found.label, found.message)
    """


def oldest() -> str | None:
    """A Python 3.11: this one, one on PATH, or one of pyenv's."""
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    installed = [str(found) for found in versions.glob("3.11.*/bin/python") if found.exists()]
    return shutil.which("python3.11") or next(iter(installed), None)


def ran(python: str, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [python, "-B", "-c", textwrap.dedent(script), *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "rules")])},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def python() -> str:
    found = oldest()
    if found is None:
        pytest.skip("there is no Python 3.11 here")
    return found


def test_every_module_loads(python: str) -> None:
    ran(python, LOADING, str(ROOT))


def test_it_finds_there_what_it_finds_here(python: str) -> None:
    installed = sysconfig.get_path("purelib")
    folders = sorted(str(rule.parent) for rule in (ROOT / "fixtures").glob("SL*/proof.toml"))
    assert folders
    there = ran(python, CHECKING, installed, *folders)
    assert there.count("\n") > len(folders) / 2
    assert there == ran(sys.executable, CHECKING, installed, *folders)
