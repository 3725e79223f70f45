"""The rules load on the oldest Python that is supported, where it is present, and need nothing but its own library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
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


def oldest() -> str | None:
    """A Python 3.11: this one, one on PATH, or one of pyenv's."""
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    installed = [str(found) for found in versions.glob("3.11.*/bin/python") if found.exists()]
    return shutil.which("python3.11") or next(iter(installed), None)


def test_every_module_loads() -> None:
    python = oldest()
    if python is None:
        pytest.skip("there is no Python 3.11 here")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "rules")]),
    }
    done = subprocess.run(
        [python, "-B", "-c", textwrap.dedent(SCRIPT), str(ROOT)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
