"""A program whose Python has no jax is told which to start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from shardlint.run.pythons import explain_missing_jax
from tests.programs import skip_without

pytestmark = pytest.mark.skipif(os.name != "posix", reason="scripts stand in for Pythons")


def _python(folder: Path, code: int) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_without_jax_is_named_with_that_of_the_project(tmp_path: Path) -> None:
    python = _python(tmp_path / "bin", 3)
    (tmp_path / "proj" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "proj" / ".venv" / "pyvenv.cfg").write_text("")
    own = tmp_path / "proj" / ".venv" / "bin" / "python"
    own.write_text("")
    said = explain_missing_jax([python, "train.py", "--steps", "2"], tmp_path / "proj")
    assert f"{python}, which ran the program, has no jax" in said
    assert f"(-- {own} train.py --steps 2)" in said
    assert "(-- train.py --steps 2) for shardlint's own" in said


@pytest.mark.parametrize("words", [["sh", "-c", "true"], ["no-such-command"], [sys.executable, "train.py"]])
def test_nothing_is_said_of_others(tmp_path: Path, words: list[str]) -> None:
    skip_without("jax")
    assert explain_missing_jax(words, tmp_path) == ""


def test_a_python_that_fails_otherwise_says_nothing(tmp_path: Path) -> None:
    assert explain_missing_jax([_python(tmp_path, 1), "train.py"], tmp_path) == ""
