"""The hooks under a real pre-commit, in a fresh repository, from this working tree: `pytest -m precommit`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pre_commit")
pytestmark = [pytest.mark.precommit, pytest.mark.xdist_group("precommit")]

ROOT = Path(__file__).parent.parent
BAD = """import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def place(mesh, x):
    jax.device_put(x, NamedSharding(mesh, P("data")))
    return x
"""
GOOD = BAD.replace("    jax.device_put", "    x = jax.device_put")

# Neither the user's git settings nor a repository around this test may take part.
ISOLATED = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@localhost",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@localhost",
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=ISOLATED, check=True, text=True, capture_output=True
    )
    return done.stdout.strip()


@dataclass
class Project:
    """A repository whose .pre-commit-config.yaml takes the hooks from a commit of this working tree."""

    folder: Path
    home: Path

    def write(self, text: str) -> None:
        (self.folder / "train.py").write_text(text, "utf-8")
        git(self.folder, "add", "-A")

    def read(self) -> str:
        return (self.folder / "train.py").read_text("utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", *arguments],
            cwd=self.folder,
            env={**ISOLATED, "PRE_COMMIT_HOME": str(self.home)},
            text=True,
            capture_output=True,
            timeout=600,
        )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    top = tmp_path_factory.mktemp("precommit")
    hooks, folder = top / "shardlint", top / "project"
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (hooks / name).parent.mkdir(parents=True, exist_ok=True)
            (hooks / name).write_bytes((ROOT / name).read_bytes())
    git(hooks, "init", "-q")
    git(hooks, "add", "-A")
    git(hooks, "commit", "-q", "-m", "the working tree")
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / ".pre-commit-config.yaml").write_text(
        f"""repos:
  - repo: {hooks}
    rev: {git(hooks, "rev-parse", "HEAD")}
    hooks:
      - id: shardlint
      - id: shardlint-fix
        args: [--unsafe-fixes]
        stages: [manual]
""",
        "utf-8",
    )
    made = Project(folder, top / "home")
    installed = made.run("install", "--install-hooks")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    yield made


def test_a_commit_with_a_mistake_is_refused_and_its_fixed_form_is_taken(project: Project) -> None:
    project.write(BAD)
    refused = subprocess.run(
        ["git", "commit", "-m", "bad"],
        cwd=project.folder,
        env={**ISOLATED, "PRE_COMMIT_HOME": str(project.home)},
        text=True,
        capture_output=True,
    )
    assert refused.returncode == 1
    assert "train.py:6:5: SL203" in refused.stdout + refused.stderr
    project.write(GOOD)
    passed = project.run("run", "shardlint")
    assert passed.returncode == 0, passed.stdout
    assert "Passed" in passed.stdout


def test_the_fix_hook_changes_the_file_and_then_passes(project: Project) -> None:
    project.write(BAD)
    changed = project.run("run", "shardlint-fix", "--hook-stage", "manual", "--all-files")
    assert changed.returncode == 1
    assert "files were modified by this hook" in changed.stdout
    assert project.read() == GOOD
    git(project.folder, "add", "-A")
    again = project.run("run", "shardlint-fix", "--hook-stage", "manual", "--all-files")
    assert again.returncode == 0, again.stdout


def test_files_that_are_not_python_are_not_given_to_it(project: Project) -> None:
    project.write(GOOD)
    (project.folder / "notes.txt").write_text(BAD, "utf-8")
    git(project.folder, "add", "-A")
    passed = project.run("run", "shardlint", "--files", "notes.txt")
    assert passed.returncode == 0
    assert "no files to check" in passed.stdout


HELPERS = BAD.replace("    jax.device_put", "    x = jax.device_put")
MAIN = "import jax\nfrom helpers import place\n\n\ndef step(mesh, x):\n    return place(mesh, x)\n"


def test_the_hook_sees_what_a_commit_does_to_other_files(project: Project) -> None:
    project.write("x = 1\n")
    (project.folder / "helpers.py").write_text(HELPERS, "utf-8")
    (project.folder / "main.py").write_text(MAIN, "utf-8")
    git(project.folder, "add", "-A")
    git(project.folder, "commit", "-q", "--no-verify", "-m", "before")
    (project.folder / "main.py").write_text(MAIN.replace("def step", "@jax.jit\ndef step"), "utf-8")
    git(project.folder, "add", "main.py")
    refused = project.run("run", "shardlint")
    assert refused.returncode == 1, refused.stdout
    assert "helpers.py:6:9: SL201 device-put-in-jit" in refused.stdout
    assert "In other files because of what these say: 1" in refused.stdout
    git(project.folder, "commit", "-q", "--no-verify", "-m", "with it")
    (project.folder / "main.py").write_text((project.folder / "main.py").read_text() + "\nx = 1\n", "utf-8")
    git(project.folder, "add", "main.py")
    passed = project.run("run", "shardlint")
    assert passed.returncode == 0, passed.stdout
    between = project.run("run", "shardlint", "--from-ref", "HEAD~1", "--to-ref", "HEAD")
    assert between.returncode == 1, between.stdout
    assert "helpers.py:6:9: SL201" in between.stdout


def test_the_environment_of_the_hook_is_small(project: Project) -> None:
    commands = list(project.home.glob("repo*/py_env-*/bin/shardlint"))
    assert len(commands) == 1, commands
    packages = {path.name.partition("-")[0].lower() for path in commands[0].parents[1].rglob("*.dist-info")}
    assert {"shardlint", "libcst", "click", "pathspec"} <= packages
    assert packages.isdisjoint({"jax", "jaxlib", "equinox", "numpy", "optax"})
