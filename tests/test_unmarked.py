"""Folders that nothing marks as a project: what is named for the run is taken for one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.config.folders import Places
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths

Write = Callable[..., Path]
_FILES = {
    "part/names.py": 'AXIS = "data"\n',
    "part/step.py": (
        "import jax\nfrom jax.sharding import PartitionSpec as P\n\nfrom part.names import AXIS\n\n\n"
        "def total(mesh, x):\n"
        "    run = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P(AXIS), out_specs=P(), check_vma=False)\n"
        "    return run(x)\n"
    ),
}


@pytest.fixture
def unmarked(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write(_FILES)
    monkeypatch.setattr("shardlint.config.folders.MARKERS", ("pyproject.toml",))
    return folder.resolve()


def _codes(*paths: Path) -> list[str]:
    return [found.rule.code for one in check_paths(paths, Options()).reports for found in one.findings]


def test_files_of_a_named_folder_find_each_other(unmarked: Path) -> None:
    assert "SL402" in _codes(unmarked)
    # The folder of the file alone does not tell where `part` is.
    assert "SL402" not in _codes(unmarked / "part" / "step.py")


def test_a_mark_below_a_named_folder_wins(unmarked: Path) -> None:
    (unmarked / "part" / "pyproject.toml").write_text("")
    places = Places(paths=[unmarked])
    assert places.project_root(str(unmarked / "part")) == str(unmarked / "part")
    assert places.project_root(str(unmarked)) == str(unmarked)


def test_a_package_belongs_to_the_folder_it_lies_in(unmarked: Path) -> None:
    (unmarked / "part" / "__init__.py").write_text("")
    part = unmarked / "part"
    assert Places(paths=[part]).project_root(str(part)) == str(unmarked)
    assert Places().project_root(str(part)) == str(unmarked)


def test_of_several_the_outermost(unmarked: Path) -> None:
    (unmarked / "part" / "deep").mkdir()
    deep = str(unmarked / "part" / "deep")
    assert Places(paths=[Path(deep), unmarked]).project_root(deep) == str(unmarked)
    assert Places(paths=[unmarked / "par"]).project_root(deep) == deep
