"""Tests of the messages of the setup scripts on a fresh machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(os.name != "posix", reason="shell scripts")
NEEDED = "Python 3.11 or newer, with venv, is needed (on Debian: python3-venv)."


def said(folder: Path, *command: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/sh", *command],
        cwd=ROOT,
        env={"PATH": str(folder), "HOME": str(folder), **env},
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def python(folder: Path, ends: int) -> Path:
    """A Python that says no to every question, or yes."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\nexit {ends}\n")
    path.chmod(0o755)
    return path


def test_without_python_it_is_said_which_one_to_get(tmp_path: Path) -> None:
    assert said(tmp_path, "scripts/python.sh") == (1, f"No Python found that can be used: {NEEDED}\n")
    python(tmp_path, 1)
    assert said(tmp_path, "scripts/python.sh") == (1, f"No Python found that can be used: {NEEDED}\n")


def test_a_python_that_was_asked_for_and_cannot_be_used_is_told(tmp_path: Path) -> None:
    old = python(tmp_path, 1)
    command = ("scripts/environment.sh", str(tmp_path / "made"), "dev", "nothing")
    assert said(tmp_path, *command, PYTHON=str(old)) == (1, f"{old} cannot be used: {NEEDED}\n")
    assert not (tmp_path / "made").exists()
