"""A small share of the fuzz of projects, and that it would see what it looks for."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from shardlint.rewrite.fix import FixReport
from tests.loading import load

pytestmark = [pytest.mark.longer, pytest.mark.skipif(os.name != "posix", reason="simulated devices by the shell's environment")]
OLD = {"a.py": "from x import pjit\n\nf = pjit(abs)\n", "b.py": "def g(mesh):\n    with mesh:\n        pass\n"}


def test_a_share_of_it_finds_nothing(tmp_path: Path) -> None:
    fuzz = load("fuzz_projects")
    counts = fuzz.fix_batch(1, range(12), tmp_path / "projects", tmp_path / "kept", True)
    assert (counts["projects"], counts["failures"]) == (12, 0)
    assert counts["ran"] > 6 and counts["moved"] > 2, "nothing moves that runs"
    assert fuzz.make_project(1, 3) == fuzz.make_project(1, 3)


def test_projects_are_python_and_hold_every_part() -> None:
    fuzz = load("fuzz_projects")
    everything = ""
    for number in range(120):
        for path, text in fuzz.make_project(2, number).items():
            if path.endswith(".py"):
                ast.parse(text)
                everything += text
    parts = ("pjit(", "thread_resources", "ExitStack", "nullcontext", "__enter__", "import pkg.", "from .", "-> Mesh")
    assert all(part in everything for part in parts)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"a.py": "f = jit(abs)\n", "b.py": "def g(mesh):\n    with jax.set_mesh(mesh):\n        pass\n"}, ""),
        ({"a.py": "f = jit(abs)\n"}, "moved in parts: 1 of 3 left"),
        ({"b.py": "def g(mesh):\n    with jax.set_mesh(mesh:\n"}, "b.py does not parse"),
    ],
)
def test_what_is_wrong_is_seen(changed: dict[str, str], said: str) -> None:
    found = load("fuzz_projects").explain_wrong_fix(OLD, {**OLD, **changed}, FixReport())
    assert found.startswith(said) and bool(found) == bool(said)


def test_another_result_and_an_unused_import_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz = load("fuzz_projects")
    monkeypatch.setattr(fuzz, "make_project", lambda seed, number: {"main.py": "def main():\n    return 1\n"})

    def spoils(paths: list[Path], *given: object, **options: object) -> FixReport:
        (paths[0] / "main.py").write_text(f"{'import os' if paths[0].name == 'p0' else ''}\n\ndef main():\n    return {paths[0].name[1]}\n")
        return FixReport()

    monkeypatch.setattr(fuzz, "fix_files", spoils)
    counts = fuzz.fix_batch(1, range(3), tmp_path / "projects", tmp_path / "kept", True)
    assert counts["failures"] == 2, "0 has an unused import (and another result), 2 another result"
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["p0", "p2"]
