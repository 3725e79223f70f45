"""`shardlint upgrade`: what it changes, and the report that goes into a pull request."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]

TRAIN = """\
import jax
import numpy as np
from jax.experimental.pjit import pjit
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
double = pjit(lambda x: x * 2, in_shardings=P("data"), out_shardings=P("data"))


def main():
    with mesh:
        return double(np.ones(8)), jax.tree_map(abs, [1])
"""
LEFT = "from jax.experimental.maps import xmap\n\nf = xmap(abs, in_axes=['a'], out_axes=['a'])\n"


def upgrade(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, with the rules as they are."""
    command = [sys.executable, "-m", "shardlint", "upgrade", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, text=True, capture_output=True, timeout=120, check=False)


def test_all_moves_are_made_and_told_by_file(write: Write) -> None:
    root = write({"train.py": TRAIN, "old.py": LEFT, "requirements.txt": "jax==0.4.28\n"})
    ran = upgrade("--to", "jax=0.12", str(root))
    assert ran.returncode == 1, ran.stderr
    after = (root / "train.py").read_text()
    assert "with jax.set_mesh(mesh):" in after and "jax.jit(" in after and "jax.tree.map(" in after
    assert "pjit" not in after
    assert (root / "old.py").read_text() == LEFT
    parts = ran.stdout.split("\n### ")
    assert parts[0].startswith("## Upgrade to jax 0.12\n\n`shardlint upgrade --to jax=0.12`")
    assert "1 left to do by hand" in parts[0] and "**review**" in parts[0]
    heads = [part.splitlines()[0] for part in parts[1:]]
    assert heads[0] == "Releases" and [head.rpartition("/")[2] for head in heads[1:]] == ["old.py`", "train.py`"]
    assert "- [ ] `requirements.txt`" in parts[1] and "pins jax 0.4.28" in parts[1]
    assert parts[2].splitlines()[2].startswith("- [ ] line 1: **SL901 api-removed** (removed)")
    assert "- line 11: SL901 api-removed: write jax.tree.map" in parts[3], parts[3]
    assert "```" not in ran.stdout


def test_a_diff_writes_nothing_and_is_in_the_report(write: Write) -> None:
    root = write({"train.py": TRAIN})
    ran = upgrade("--to", "jax=0.12", "--diff", str(root))
    assert ran.returncode == 1
    assert (root / "train.py").read_text() == TRAIN
    assert "Would fix" in ran.stdout and "0 left" in ran.stdout
    assert "```diff\n--- a/" in ran.stdout and "\n+    with jax.set_mesh(mesh):\n" in ran.stdout
    assert "- line 12: SL901 api-removed" in ran.stdout, "lines are those of the file as it is"


def test_nothing_is_left(write: Write) -> None:
    root = write({"train.py": TRAIN})
    assert upgrade("--to", "jax=0.12", str(root)).returncode == 0
    again = upgrade("--to=jax=0.12", str(root))
    assert (again.returncode, "Nothing to do." in again.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "Missing option '--to'", id="no-release"),
        pytest.param(["--to", "jax=99"], "this shardlint knows jax", id="not-known"),
        pytest.param(["--to", "jax=0.12", "none.py"], "no such file", id="no-file"),
    ],
)
def test_what_cannot_be_done_is_said(write: Write, arguments: list[str], said: str) -> None:
    root = write({"train.py": TRAIN})
    ran = upgrade(*arguments, cwd=root)
    assert ran.returncode == 2
    assert said in ran.stderr + ran.stdout


def test_no_code_is_taken_for_markdown(write: Write) -> None:
    root = write({"a*b`c.py": "import jax\n\nx = jax.tree_map(abs, [1])\n"})
    ran = upgrade("--to", "jax=0.12", str(root))
    assert ran.returncode == 0
    assert "a*b`c.py ``\n" in ran.stdout


def test_what_keeps_a_project_is_told_once(write: Write) -> None:
    kept = "\n\ndef other(stack):\n    stack.enter_context(mesh)\n"
    user = "from train import double, mesh\n\nwith mesh:\n    double([1])\n"
    root = write({"train.py": TRAIN + kept, "user.py": user, "bad.py": "import jax\nx = (\n"})
    out = upgrade("--to", "jax=0.12", str(root)).stdout
    assert out.count("a mesh is or may be entered") == 1, out
    sections = out.split("\n### ")
    title = "Why SL315 legacy-mesh-context is not rewritten in "
    assert sections[-1].startswith(title) and "train.py:16: a mesh is or may be entered" in sections[-1]
    pointed = [one for one in sections if f'See "{title}' in one]
    assert [one.splitlines()[0].rpartition("/")[2] for one in pointed] == ["train.py`", "user.py`"], out
    assert out.count("bad.py") == 1 and "SL001" in out and "### Not checked" not in out


def test_cells_of_notebooks_are_named(write: Write) -> None:
    import json

    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**cell, "source": ["import jax\n", "\n", "x = jax.tree_map(abs, [1])\n"]}]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    out = upgrade("--to", "jax=0.12", str(write({"a.ipynb": text}))).stdout
    assert "- cell 1 line 3: SL901 api-removed" in out, out
