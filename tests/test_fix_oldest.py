"""Fixes that would break the project on the oldest releases it allows are not made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shardlint.engine.run import Options
from shardlint.rewrite.fix import FixReport, fix

OLD = """\
import jax
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec as P


def main(mesh, x):
    f = shard_map(lambda a: a, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_rep=False)
    return jax.tree_map(lambda a: a, f(x))
"""
REQUIRED = '[project]\nname = "a"\nversion = "1"\ndependencies = ["{}"]\n'


def project(folder: Path, requirement: str, text: str = OLD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(REQUIRED.format(requirement))
    (folder / "train.py").write_text(text)
    return folder


def fixed(root: Path, **targets: str) -> tuple[str, list[str]]:
    """The text afterwards, and what is said of what is left."""
    report = fix([root], Options(targets=targets), unsafe=True, write=True)
    return (root / "train.py").read_text(), said(report)


def said(report: FixReport) -> list[str]:
    return [finding.help for outcome in report.fixed for finding in outcome.left]


@pytest.mark.parametrize("requirement", ["jax>=0.4.30", "jax~=0.4", "jax>0.4.37,<1", "jax>=0.3.1"])
def test_names_that_came_later_are_refused_with_the_bound(tmp_path: Path, requirement: str) -> None:
    text, left = fixed(project(tmp_path, requirement))
    assert "from jax.experimental.shard_map import shard_map" in text and "check_rep" in text
    assert "jax.tree.map(" in text
    assert any("pyproject.toml allows 0." in one and "jax.shard_map came with jax" in one for one in left), left


@pytest.mark.parametrize("requirement", ["jax>=0.8", "jax", "jax<0.13", "jax==0.12.0", "numpy"])
def test_what_the_oldest_release_has_is_written(tmp_path: Path, requirement: str) -> None:
    text, left = fixed(project(tmp_path, requirement))
    assert "from jax import shard_map" in text and "check_vma=False" in text and "jax.tree.map(" in text
    assert not left


def test_a_release_that_is_asked_for_is_the_oldest(tmp_path: Path) -> None:
    text, _ = fixed(project(tmp_path, "jax>=0.4.30"), jax="0.12.0")
    assert "from jax import shard_map" in text and "check_vma=False" in text


def test_what_is_broken_there_already_may_be_fixed(tmp_path: Path) -> None:
    """A line that raises on the oldest release is no reason to leave another line, or itself, as it is."""
    text = OLD + "\n\ndef of(mesh):\n    with jax.set_mesh(mesh):\n        return jax.tree_map(abs, 1)\n"
    after, _ = fixed(project(tmp_path, "jax>=0.4.30", text))
    assert after.count("jax.tree.map(") == 2 and "check_rep" in after


def test_each_project_has_its_own_bound_in_any_order(tmp_path: Path) -> None:
    texts = []
    for turn, order in enumerate((("old", "new"), ("new", "old"))):
        root = tmp_path / str(turn)
        for name, requirement in (("old", "jax>=0.4.30"), ("new", "jax>=0.8")):
            project(root / name, requirement)
        fix([root / name for name in order], Options(), unsafe=True, write=True)
        texts.append([(root / name / "train.py").read_text() for name in ("old", "new")])
    assert texts[0] == texts[1]
    assert "check_rep" in texts[0][0] and "check_vma" in texts[0][1]


def test_a_mesh_context_stays_where_the_oldest_release_has_no_set_mesh(tmp_path: Path) -> None:
    text = (
        "import jax\nimport numpy as np\nfrom jax.sharding import Mesh\n\n"
        'mesh = Mesh(np.array(jax.devices()), ("data",))\nwith mesh:\n    print(jax.jit(lambda x: x)(1))\n'
    )
    after, left = fixed(project(tmp_path, "jax>=0.4.30", text))
    assert after == text
    assert any("jax.set_mesh came with jax" in one for one in left), left


def test_standard_input_and_diff_refuse_alike(tmp_path: Path) -> None:
    root = project(tmp_path, "jax>=0.4.30")
    command = [sys.executable, "-m", "shardlint", "fix", "--unsafe-fixes"]
    shown = subprocess.run([*command, "--diff", "."], cwd=root, capture_output=True, text=True, check=False).stdout
    assert "+    return jax.tree.map(" in shown and "check_vma" not in shown
    piped = subprocess.run(
        [*command, "-", "--stdin-filename", "train.py"],
        cwd=root, input=OLD, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "check_rep" in piped.stdout and "jax.tree.map(" in piped.stdout, piped.stderr


def test_standard_input_is_read_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shardlint", "fix", "-"]
    for more in (["train.py"], ["--verify"], ["--interactive"]):
        ran = subprocess.run(
            [*command, *more], cwd=tmp_path, input="", capture_output=True, text=True, check=False
        )
        assert ran.returncode == 2 and "standard input" in ran.stderr, ran.stderr
    ran = subprocess.run(command, cwd=tmp_path, input="def f(:\n", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "def f(:\n") and "cannot parse" in ran.stderr
