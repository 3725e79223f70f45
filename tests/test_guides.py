"""The guides: their files are written, their commands run one after the other, and print what stands below them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import release, skip_without

skip_without("jax", "equinox", "optax")
pytestmark = [pytest.mark.longer, pytest.mark.skipif(release("jax") < (0, 7), reason="is written for jax 0.7 and newer")]

DOCS = Path(__file__).parent.parent / "docs"
_BLOCK = re.compile(r'^```(\w+)(?: (\w+)="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def _follow(guide: str, folder: Path) -> int:
    """Do what a guide says; how many commands that were."""
    ran = 0
    for language, what, name, text in _BLOCK.findall(guide):
        if what == "title":
            (folder / name).write_text(text, "utf-8")
        elif what == "edit":
            before, after = text.splitlines()
            whole = (folder / name).read_text("utf-8")
            assert whole.count(before) == 1, f"{name} does not hold {before}"
            (folder / name).write_text(whole.replace(before, after), "utf-8")
        elif language == "console":
            for command, expected in _commands(text):
                ran += 1
                _shown(command, expected, _printed(command, folder))
    return ran


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.splitlines()
        yield command, expected


def _printed(command: str, folder: Path) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200", "PYTHONPATH": ""}
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    return [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]


def _shown(command: str, expected: list[str], printed: list[str]) -> None:
    """Each line is the beginning of a line that is printed, the next one unless `...` stands between."""
    place, skips = 0, False
    for line in expected:
        if line == "...":
            skips = True
            continue
        last = len(printed) if skips else place + 1
        found = next((n for n in range(place, min(last, len(printed))) if printed[n].startswith(line)), None)
        assert found is not None, f"$ {command}\ndoes not print\n{line}\nbut\n" + "\n".join(printed)
        place, skips = found + 1, False


@pytest.mark.parametrize(("guide", "commands"), [("tutorial.md", 9), ("upgrading.md", 4), ("ci.md", 3)])
def test_a_guide_does_what_it_says(tmp_path: Path, guide: str, commands: int) -> None:
    assert _follow((DOCS / guide).read_text("utf-8"), tmp_path) == commands


@pytest.mark.packaging
@pytest.mark.xdist_group("packaging")
def test_the_project_of_the_tutorial_can_be_installed(tmp_path: Path) -> None:
    """As its CI job does, with the fixtures beside it that `verify --init` writes."""
    for _, what, name, text in _BLOCK.findall((DOCS / "tutorial.md").read_text("utf-8")):
        if what == "title":
            (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "sharding_fixtures.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "-e", str(tmp_path)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_what_is_not_printed_is_noticed() -> None:
    _shown("c", ["a", "...", "d"], ["ab", "b", "c", "d"])
    for wrong in (["b"], ["a", "c"], ["a", "...", "e"]):
        with pytest.raises(AssertionError):
            _shown("c", wrong, ["ab", "b", "c", "d"])
