"""Tests of the effects of a change on other files: `check FILE`, `--diff-base`, with a real git."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardlint.config.folders import Places
from shardlint.engine.changes.caused_findings import Elsewhere
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths

Write = Callable[..., Path]
Start = Callable[..., "subprocess.CompletedProcess[bytes]"]

HELPERS = """\
import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def shard(mesh, x):
    return jax.device_put(x, NamedSharding(mesh, P("data")))


@jax.jit
def other(mesh, y):
    return jax.device_put(y, NamedSharding(mesh, P("data")))
"""
MAIN = """\
import jax
from helpers import shard


def step(mesh, x):
    return shard(mesh, x) + 1
"""
JITTED = MAIN.replace("def step", "@jax.jit\ndef step")
FILES = {
    "helpers.py": HELPERS,
    "main.py": MAIN,
    "alone.py": "import os\n\nprint(os.name)\n",
    "requirements.txt": "jax==0.12.0\n",
}
ISOLATED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@localhost",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@localhost",
}


def git(folder: Path, *arguments: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**environ, **ISOLATED},
        check=True,
        text=True,
        capture_output=True,
    )
    return done.stdout.strip()


@pytest.fixture
def root(write: Write) -> Path:
    root = write(FILES)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


@pytest.fixture
def found(start: Start) -> Callable[..., list[str]]:
    """Where what is found, as `helpers.py:6`."""

    def call(root: Path, *arguments: str, **environ: str) -> list[str]:
        ran = start(
            "check", *arguments, "--select", "SL2", "--output-format", "json", cwd=root, CI="", **environ
        )
        assert ran.returncode in (0, 1), ran.stderr + ran.stdout
        findings = json.loads(ran.stdout)["findings"]
        assert ran.returncode == bool(findings)
        return [f"{one['path']}:{one['line']}" for one in findings]

    return call


Found = Callable[..., list[str]]


def test_a_jit_that_is_added_shows_what_it_does_in_another_file(root: Path, found: Found) -> None:
    assert found(root, "main.py") == []
    (root / "main.py").write_text(JITTED)
    assert found(root, "main.py") == ["helpers.py:6"]
    assert found(root, "main.py") == ["helpers.py:6"]  # out of the cache
    assert found(root, "main.py", "--no-cache") == ["helpers.py:6"]
    assert found(root, "main.py", "--no-elsewhere") == []
    assert found(root, "alone.py") == []
    assert found(root, "helpers.py", "main.py") == ["helpers.py:6", "helpers.py:11"]
    assert found(root, ".") == ["helpers.py:6", "helpers.py:11"]


def test_a_notebook_shows_what_it_does_in_another_file(root: Path, found: Found, start: Start) -> None:
    notebook = {"cells": [{"cell_type": "code", "source": JITTED}], "metadata": {}, "nbformat": 4}
    (root / "look.ipynb").write_text(json.dumps(notebook))
    assert found(root, "look.ipynb") == ["helpers.py:6"]
    assert found(root, "look.ipynb", "--no-cache") == ["helpers.py:6"]
    notebook["cells"] = [{"cell_type": "markdown", "source": "x"}, *notebook["cells"]]  # type: ignore[misc]
    (root / "look.ipynb").write_text(json.dumps(notebook))
    said = start("check", "helpers.py", "--select", "SL201", cwd=root, CI="").stdout.decode()
    assert "called by `step` at look.ipynb:cell 2:7, traced by jax.jit at look.ipynb:cell 2:5" in said


def test_what_is_found_without_a_file_too_is_not_because_of_it(root: Path, found: Found) -> None:
    """A finding rests on all callers that bear it out; it is because of a file if it would go with it."""
    (root / "main.py").write_text(JITTED)
    (root / "second.py").write_text(JITTED)
    assert found(root, "second.py") == found(root, "main.py") == []
    assert found(root, "main.py", "second.py") == ["helpers.py:6"]
    (root / "main.py").write_text(MAIN)
    assert found(root, "second.py") == ["helpers.py:6"]


OLD = """\
import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P


def make():
    return Mesh(np.array(jax.devices()), ("data",))


def run(x):
    mesh = make()
    with mesh:
        return x + 1
"""


@pytest.mark.parametrize("arguments", [(), ("--diff-base", "HEAD"), ("--no-cache",)])
def test_a_new_file_did_not_cause_what_a_project_moves_together(
    write: Write, found: Found, start: Start, arguments: tuple[str, ...]
) -> None:
    """The finding depends on all files only for the fix. The old mesh context itself is not new."""
    root = write({"a.py": OLD, "b.py": "from a import make\n" + OLD.replace("def make", "def other"),
                  "requirements.txt": "jax==0.12.0\n"})  # fmt: skip
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    text = "import jax\nfrom a import make\nfrom jax.sharding import PartitionSpec as P\n\n\ndef g(x):\n    mesh = make()\n    with mesh:\n"
    (root / "new.py").write_text(text + '        return jax.lax.with_sharding_constraint(x, P("data"))\n')

    def places(*more: str) -> list[str]:
        ran = start("check", *more, "--select", "SL315", "--output-format", "json", cwd=root, CI="")
        return [f"{one['path']}:{one['line']}" for one in json.loads(ran.stdout)["findings"]]

    assert places() == ["a.py:12", "b.py:13", "new.py:8"]
    assert places("new.py", *arguments) == ["new.py:8"]


def test_from_another_folder_paths_lead_there(root: Path, found: Found) -> None:
    (root / "main.py").write_text(JITTED)
    (root / "sub").mkdir()
    assert found(root / "sub", "../main.py") == [f"{root}/helpers.py:6"]


def test_settings_leave_files_out_elsewhere_too(root: Path, found: Found) -> None:
    (root / "main.py").write_text(JITTED)
    (root / "shardlint.toml").write_text('exclude = ["helpers.py"]\n')
    assert found(root, "main.py") == []


def test_a_branch_shows_what_it_changed_and_what_that_brings(root: Path, found: Found) -> None:
    git(root, "checkout", "-q", "-b", "branch")
    assert found(root, "--diff-base", "main") == []
    (root / "main.py").write_text(JITTED)
    assert found(root, "--diff-base", "main") == ["helpers.py:6"]
    git(root, "commit", "-q", "-a", "-m", "second")
    assert found(root, "--diff-base", "main") == ["helpers.py:6"]
    assert found(root, "--diff-base", "HEAD") == []
    (root / "new.py").write_text(HELPERS)
    assert found(root, "--diff-base", "HEAD") == ["new.py:11"]


def test_what_was_there_before_is_not_told_as_new(root: Path, found: Found) -> None:
    (root / "main.py").write_text(JITTED)
    git(root, "commit", "-q", "-a", "-m", "second")
    (root / "main.py").write_text(JITTED + "\n\nprint(1)\n")
    assert found(root, "main.py") == ["helpers.py:6"]
    assert found(root, "main.py", "--diff-base", "HEAD") == []
    assert found(root, "--diff-base", "HEAD~1") == ["helpers.py:6"]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The names of the files that are checked in this process, and not known from the cache."""
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "kept"))
    names: list[str] = []
    call = Checker.check_file
    monkeypatch.setattr(
        Checker, "check_file", lambda self, path, *rest: names.append(path.name) or call(self, path, *rest)
    )
    yield names


def lines(root: Path, name: str, since: str | None, cached: bool = True) -> list[str]:
    report = check_paths([root / name], Options(select=("SL2",)), cached=cached, elsewhere=True, since=since)
    return [
        f"{one.path.name}:{one.source.position_of(f.start)[0]}" for one in report.reports for f in one.findings
    ]


def test_what_was_found_at_the_revision_is_known(root: Path, checked: list[str]) -> None:
    """Of a clean tree that was checked; then nothing is checked but what rests on the edits, and nothing again."""
    assert lines(root, "main.py", "HEAD") == []
    (root / "main.py").write_text(JITTED)
    checked.clear()
    assert lines(root, "main.py", "HEAD") == ["helpers.py:6"]
    assert checked == ["main.py", "helpers.py"]
    (root / "main.py").write_text(JITTED + "\n\ndef more():\n    return 1\n")
    checked.clear()
    assert lines(root, "main.py", "HEAD") == ["helpers.py:6"]
    assert checked == ["main.py", "helpers.py"], "as main.py now is: its finding names a line there"
    checked.clear()
    assert lines(root, "main.py", "HEAD") == ["helpers.py:6"]
    assert checked == []
    git(root, "commit", "-q", "-a", "-m", "second")
    assert lines(root, "main.py", "HEAD") == []
    assert lines(root, "main.py", "HEAD~1") == ["helpers.py:6"]  # a revision that the cache has not seen
    checked.clear()
    assert lines(root, "main.py", "HEAD~1") == ["helpers.py:6"]
    assert checked == []


ADDED = "\n\ndef more():\n    return 1\n"
STATES = {
    "main.py": (MAIN, JITTED, MAIN + ADDED, JITTED + ADDED, "x = 1\n" + JITTED),
    "second.py": (MAIN, JITTED, JITTED + ADDED, ""),
    "helpers.py": (
        HELPERS,
        HELPERS + ADDED,
        ADDED + HELPERS,
        HELPERS.replace("def shard", "@jax.jit\ndef shard"),
    ),
    "third.py": ("import main\n", "from main import step\nimport jax\njit = jax.jit(step)\n"),
}


# Twenty random steps each: one walk shows what breaks often, the others what breaks seldom.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.longer) for seed in range(1, 4))])
def test_the_cache_tells_the_same_of_a_revision(root: Path, checked: list[str], seed: int) -> None:
    chance, elsewhere = random.Random(seed), 0
    for _ in range(20):
        for name in chance.sample(sorted(STATES), chance.choice((1, 1, 2))):
            (root / name).write_text(chance.choice(STATES[name]))
        name = chance.choice([name for name in STATES if (root / name).exists()])
        since = chance.choice(("HEAD", "HEAD", "HEAD", "HEAD~1", None))
        if since == "HEAD~1" and git(root, "rev-list", "--count", "HEAD") == "1":
            since = "HEAD"
        found = lines(root, name, since)
        assert found == lines(root, name, since, cached=False), (name, since)
        elsewhere += sum(not place.startswith(name) for place in found)
        if chance.random() < 0.25:
            git(root, "add", "-A")
            git(root, "commit", "-q", "--allow-empty", "-m", "state")
        if chance.random() < 0.2:
            check_paths([root], Options(select=("SL2",)), cached=True)
    assert elsewhere > 0


def test_the_base_is_where_the_branch_began(root: Path, found: Found) -> None:
    git(root, "checkout", "-q", "-b", "branch")
    git(root, "checkout", "-q", "main")
    (root / "main.py").write_text(JITTED)
    git(root, "commit", "-q", "-a", "-m", "on main")
    git(root, "checkout", "-q", "branch")
    (root / "alone.py").write_text("x = 1\n")
    assert found(root, "--diff-base", "main") == []


def test_a_repository_without_commits(write: Write, found: Found) -> None:
    root = write({**FILES, "main.py": JITTED})
    git(root, "init", "-q")
    assert found(root, "main.py", "--diff-base", "HEAD") == ["helpers.py:6"]


def test_pre_commit_that_compares_two_revisions_is_followed(root: Path, found: Found) -> None:
    (root / "main.py").write_text(JITTED)
    git(root, "commit", "-q", "-a", "-m", "second")
    assert found(root, "main.py", "--diff-base", "HEAD", PRE_COMMIT_FROM_REF="HEAD~1") == ["helpers.py:6"]


def test_a_project_below_the_top_of_its_repository(write: Write, found: Found) -> None:
    top = write({f"py/{name}": text for name, text in {**FILES, "setup.cfg": ""}.items()})
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    (top / "py" / "main.py").write_text(JITTED)
    assert found(top, "--diff-base", "HEAD") == ["py/helpers.py:6"]
    assert found(top / "py", "--diff-base", "HEAD") == ["helpers.py:6"]


def test_known_findings_elsewhere_are_known_and_stay_in_the_baseline(
    root: Path, start: Start, found: Found
) -> None:
    (root / "main.py").write_text(JITTED)
    assert start("baseline", "--select", "SL2", cwd=root, CI="").returncode == 0
    before = (root / ".shardlint-baseline.json").read_text()
    assert found(root, "main.py") == []
    assert start("check", "main.py", cwd=root, CI="").returncode == 0
    assert (root / ".shardlint-baseline.json").read_text() == before


@pytest.mark.parametrize("revision", ["no-such-branch", "", "--help"])
def test_a_revision_that_there_is_not(root: Path, start: Start, revision: str) -> None:
    ran = start("check", f"--diff-base={revision}", cwd=root)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"Traceback" not in ran.stderr


def test_outside_of_git_it_says_so(write: Write, start: Start) -> None:
    ran = start("check", "--diff-base", "main", cwd=write(FILES), GIT_CEILING_DIRECTORIES="/")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"git cannot list the changes" in ran.stderr


def test_nothing_changed_is_no_failure(root: Path, start: Start) -> None:
    ran = start("check", "--diff-base", "HEAD", cwd=root)
    assert (ran.returncode, ran.stdout) == (0, b"Nothing to check: no Python file changed since HEAD.\n")


COMPUTED = "import importlib\n\n\ndef load(name):\n    return importlib.import_module(name)\n"


@pytest.mark.parametrize(
    ("files", "name", "others"),
    [
        ({"a.py": "import b\n", "b.py": ""}, "a.py", {"b.py"}),
        ({"a.py": "import b\n", "b.py": ""}, "b.py", {"a.py"}),
        ({"a.py": "import b\n", "b.py": "", "c.py": ""}, "c.py", set()),
        ({"p/__init__.py": "", "p/a.py": "from .b import x\n", "p/b.py": ""}, "p/b.py", {"p/__init__.py", "p/a.py"}),
        ({"p/__init__.py": "", "m.py": "import p\n"}, "p/__init__.py", {"m.py"}),
        ({"a.py": "import importlib\nimportlib.import_module('b')\n", "b.py": ""}, "b.py", {"a.py"}),
        ({"conftest.py": "", "test_a.py": ""}, "conftest.py", {"test_a.py"}),
        ({"p/__init__.py": "", "p/a.py": "", "m.py": "import p.a\n"}, "p/__init__.py", {"p/a.py", "m.py"}),
        ({"p/__init__.py": "", "p/l.py": COMPUTED, "p/b.py": ""}, "p/b.py", {"p/l.py"}),
        ({"p/__init__.py": "", "p/l.py": COMPUTED, "b.py": ""}, "b.py", set()),
        ({"l.py": COMPUTED, "b.py": ""}, "b.py", set()),
        ({"l.py": COMPUTED + "PLACE = 'q.'\n", "q/b.py": "", "b.py": ""}, "q/b.py", {"l.py"}),
        ({"l.py": COMPUTED + "PLACE = 'q.'\n", "q/b.py": "", "b.py": ""}, "b.py", set()),
    ],
)  # fmt: skip
def test_which_files_a_file_may_concern(
    write: Write, files: dict[str, str], name: str, others: set[str]
) -> None:
    root = write({**files, "zz.py": "import os\n"})
    named = str(root / name)
    found = {os.path.relpath(met.real, root) for met in Elsewhere([named], {named}, Options(), Places(), None).other_files}
    assert others <= found
    if not others:
        assert found == set()
