"""A checkout nobody trusts: nothing of it runs, and nothing in it steers the terminal that shows the report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import skip_without

pytestmark = pytest.mark.longer

Write = Callable[..., Path]
Start = Callable[..., subprocess.CompletedProcess[bytes]]

BAD = """import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))


@jax.jit
def step(x):
    x = jax.device_put(x, NamedSharding(mesh, P("data")))
    return x * 2
"""

# What Python, pytest, pip, an editor or a plugin loader would run, and modules that shardlint itself imports.
TRAPS = """
    __init__.py __main__.py conftest.py setup.py sitecustomize.py usercustomize.py noxfile.py backend.py evil.py
    click.py click/__init__.py libcst.py pathspec.py json.py tokenize.py tomllib.py concurrent.py multiprocessing.py
    shardlint_rules/__init__.py jax/__init__.py numpy.py encodings/evil.py encodings/__init__.py
    .venv/lib/python3.13/site-packages/sitecustomize.py .venv/bin/python venv/lib/python3.12/site-packages/evil.py
    tests/conftest.py src/evil/__init__.py .pre-commit-hook.py
""".split()
TEXTS = {
    "pyproject.toml": """
        [build-system]
        requires = []
        build-backend = "backend"
        backend-path = ["."]
        [project]
        name = "evil"
        dynamic = ["version", "dependencies"]
        [project.entry-points."shardlint.rules"]
        evil = "evil"
        [project.entry-points.pytest11]
        evil = "evil"
        [tool.setuptools.dynamic]
        version = {attr = "evil.version"}
        [tool.shardlint]
        jit-decorators = ["evil.jit", "evil:jit", "__import__('evil')"]
        exclude = ["$(touch ran)", "`touch ran`"]
        [tool.shardlint.verify]
        fixtures = ["evil:fixture"]
        """,
    "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
    "evil-1.0.dist-info/entry_points.txt": "[shardlint.rules]\nevil = evil\n[console_scripts]\nevil = evil:main\n",
    "evil.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
    "evil.egg-info/entry_points.txt": "[shardlint.rules]\nevil = evil\n",
    "evil.pth": "import evil\n",
    ".venv/lib/python3.13/site-packages/evil.pth": "import evil\n",
    ".venv/pyvenv.cfg": "home = .\n",
    ".gitignore": "$(touch ran)\n",
    "requirements.txt": "-e .\n-r evil.py\njax @ file:///evil\n",
    "train.py": f"import evil, click\nfrom evil import *\n{BAD}",
    "cookie.py": f"# coding: evil\n{BAD}",
    "test_it.py": f"import conftest\n{BAD}",
}


@pytest.fixture
def trap(write: Write, tmp_path: Path) -> tuple[Path, Path]:
    """A project, and the file that anything of it writes its name to when it runs."""
    marks = tmp_path / "marks"
    code = f"open({str(marks)!r}, 'a').write(__file__ + '\\n')\n"
    folder = write({**dict.fromkeys(TRAPS, code + BAD), **TEXTS})
    (folder / ".venv/bin/python").chmod(0o755)
    return folder, marks


COMMANDS = [
    ["check", "."],
    ["check", "--pedantic", "--select=all", "--output-format=json"],
    ["check", "--output-format=concise", "train.py", "cookie.py", "setup.py", "conftest.py", "__init__.py"],
    ["check", "--stdin-filename=train.py", "-"],
    ["fix", "--diff", "--unsafe-fixes", "."],
    ["fix", "--unsafe-fixes", "."],
    ["targets", "."],
    ["explain", "train.py:10"],
    ["rules"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_of_a_checked_project_runs(trap: tuple[Path, Path], start: Start, command: list[str]) -> None:
    folder, marks = trap
    done = start(*command, cwd=folder, input=BAD.encode(), VIRTUAL_ENV=str(folder / ".venv"))
    assert not marks.exists(), marks.read_text()
    assert not (folder / "ran").exists()
    assert done.returncode == (2 if "cookie.py" in command else done.returncode & 1), done.stderr
    assert b"evil" not in done.stderr.replace(b"codec", b"") or command[0] == "fix"
    if command[0] == "check":
        assert b"SL201" in done.stdout


def test_nothing_runs_by_the_installed_script(trap: tuple[Path, Path]) -> None:
    folder, marks = trap
    script = Path(sys.executable).parent / "shardlint"
    if not script.exists():
        pytest.skip("no script here")
    done = subprocess.run([script, "check", "."], cwd=folder, capture_output=True, timeout=120)
    assert done.returncode == 1
    assert b"SL201" in done.stdout
    assert not marks.exists(), marks.read_text()


@pytest.mark.parametrize("code", ["import click", "import evil", "import setup", "import conftest"])
def test_the_traps_work(trap: tuple[Path, Path], code: str) -> None:
    folder, marks = trap
    subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, timeout=120)
    assert marks.exists()


# terminals

STEERING = "\x1b[2J\x1b]0;owned\x07\x9b2J\u202e\u2066\x08\x7f"


def on_terminal(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code, and all that a command writes to a terminal (click takes escapes out of what goes to a pipe)."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "shardlint", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "TERM": "xterm"},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # what Linux says when the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    return process.wait(300), said.decode().replace("\r\n", "\n")


@pytest.fixture
def steering(write: Write) -> Path:
    text = BAD.replace('P("data")', f'P("da{STEERING}ta", "nope{STEERING}")').replace(
        "return x * 2", f"return x * 2  # shardlint: ignore[{STEERING}] {STEERING}"
    )
    folder = write(
        {
            f"a{STEERING}\n.py": text,
            "b.py": text,
            f"broken{STEERING}.py": f"import jax\n{STEERING}\njax.device_put(1)\n",
        }
    )
    (folder / f"requirements{STEERING}.txt").write_text(f"jax==0.11.0{STEERING}\nflax<0.12.9 {STEERING}\n")
    return folder


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["check", "--pedantic", "--select=all", "."], 1),
        (["check", "--pedantic", "--output-format=concise", "."], 1),
        (["check", "--output-format=json", "."], 1),
        (["check", f"no{STEERING}.py"], 2),
        (["check", f"--no{STEERING}"], 2),
        (["check", f"--select={STEERING}"], 2),
        (["check", f"--target={STEERING}"], 2),
        (["check", f"--output-format={STEERING}"], 2),
        (["fix", "--diff", "--unsafe-fixes", "."], 1),
        (["fix", "--unsafe-fixes", "."], 1),
        (["fix", f"no{STEERING}.py"], 2),
        (["targets", "."], 0),
        (["targets", f"no{STEERING}"], 2),
        (["explain", "b.py:9"], 0),
        (["explain", f"no{STEERING}.py:9"], 2),
        (["explain", f"{STEERING}"], 2),
        (["rule", f"{STEERING}"], 2),
        ([STEERING], 2),
    ],
    ids=lambda value: " ".join(value).encode("unicode_escape").decode() if isinstance(value, list) else None,
)
def test_nothing_steers_a_terminal(steering: Path, command: list[str], code: int) -> None:
    ended, said = on_terminal(steering, *command)
    said = re.sub(r"\rchecked \d+ of \d+ files *|\r *(?=\r)|\r(?!\n)", "", said)  # how far a long run is
    said = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;;[!-\[\]-~]*\x1b\\", "", said)  # colours, and links to plain addresses
    assert [line for line in said.split("\n") if not line.isprintable()] == []
    assert said.strip()
    assert ended == code, said


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["verify", f"fixtures{STEERING}.py"], 1),
        (["verify", "--output-format=json", "."], 1),
        (["verify", f"no{STEERING}.py"], 2),
        (["verify", "--rules", STEERING], 2),
        (["verify", "--mesh", STEERING, "."], 2),
        (["run", "--", f"no{STEERING}"], 2),
        (["run", "--report", f"no{STEERING}/x.json", "--", "true"], 2),
    ],
    ids=lambda value: " ".join(value).encode("unicode_escape").decode() if isinstance(value, list) else None,
)
def test_verify_and_run_steer_no_terminal(write: Write, command: list[str], code: int) -> None:
    skip_without("jax")
    failing = f"import shardlint.verify\nprint({STEERING!r})\nraise ValueError({STEERING!r})\n"
    folder = write({f"fixtures{STEERING}.py": failing})
    ended, said = on_terminal(folder, *command)
    coloured = re.sub(r"\x1b\[[0-9;]*[mK]|\r", "", said)
    assert [line for line in coloured.split("\n") if not line.isprintable()] == []
    assert said.strip()
    assert ended == code, said


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
@pytest.mark.parametrize(
    "settings",
    [
        f'"{STEERING}" = 1',
        f'select = ["{STEERING}"]',
        f'select = "{STEERING}"',
        f'targets = {{"{STEERING}" = "1"}}',
        f'targets = {{jax = "{STEERING}"}}',
        f'per-file-ignores = {{"{STEERING}" = 3}}',
        f'per-file-ignores = {{"*" = ["{STEERING}"]}}',
        f"pedantic = '{STEERING}'",
        f"x = {STEERING}",
    ],
    ids=str.encode,
)
def test_settings_steer_no_terminal(write: Write, settings: str) -> None:
    escaped = (
        settings.encode("unicode_escape").decode().replace("\\x", "\\u00")
        if "'" not in settings
        else settings
    )
    folder = write({"b.py": BAD, "shardlint.toml": escaped})
    ended, said = on_terminal(folder, "check", ".")
    assert [line for line in said.split("\n") if not line.isprintable()] == []
    assert "shardlint.toml" in said or "no rule, prefix, name or harm" in said
    assert ended == 2


def test_a_diff_in_a_pipe_is_what_is_in_the_file(write: Write, start: Start) -> None:
    """`patch` must find the lines: a terminal's safety is for terminals."""
    text = BAD.replace("    return", f"    '{STEERING}'\n    return")
    folder = write({"b.py": text})
    done = start("fix", "--diff", "--unsafe-fixes", "--select=SL201", ".", cwd=folder)
    assert f" '{STEERING}'".encode() in done.stdout
    lines = done.stdout.decode().split("\n")
    old = [line[1:] for line in lines[3:] if line[:1] in (" ", "-")]
    assert "\n".join(old) in text


def test_a_line_end_in_a_name_is_no_line_of_a_diff(write: Write, start: Start) -> None:
    name = "b\n--- a\n+++ b.py"
    folder = write({name: BAD})
    done = start("fix", "--diff", "--unsafe-fixes", "--select=SL201", ".", cwd=folder)
    heads = [line for line in done.stdout.split(b"\n") if line.startswith((b"---", b"+++"))]
    assert heads == [b'--- "a/b\\n--- a\\n+++ b.py"', b'+++ "b/b\\n--- a\\n+++ b.py"']


# git: a repository names programs in its configuration and attributes

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


@pytest.fixture
def repository(write: Write, tmp_path: Path) -> tuple[Path, Path, Path]:
    """A repository with a change, a program that leaves a mark, and the mark."""
    folder = write({"a.py": BAD, "b.py": "x = 1\n", "pyproject.toml": ""})
    mark, program = tmp_path / "mark", tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*GIT, *command], cwd=folder, check=True)
    (folder / "a.py").write_text(BAD + "\n# changed\n")
    os.utime(folder / "b.py", (1, 1))  # what git would compare by its content
    return folder, program, mark


CONFIGURED = {
    "core.fsmonitor": "{0}",
    "core.hooksPath": "{0}",
    "filter.f.clean": "{0}",
    "filter.f.smudge": "{0}",
    "filter.f.process": "{0}",
    "diff.f.textconv": "{0}",
    "diff.f.command": "{0}",
    "diff.external": "{0}",
    "core.pager": "{0}",
    "pager.ls-tree": "{0}",
    "core.editor": "{0}",
    "core.sshCommand": "{0}",
    "credential.helper": "{0}",
    "alias.ls-files": "!{0}",
    "gpg.program": "{0}",
    "log.showSignature": "true",
    "uploadpack.packObjectsHook": "{0}",
    "remote.origin.vcs": "{0}",
    "remote.origin.url": "ext::{0}",
    "remote.origin.uploadpack": "{0}",
    "remote.origin.promisor": "true",
    "protocol.ext.allow": "always",
    "extensions.partialClone": "origin",
    "core.repositoryformatversion": "1",
}


@pytest.mark.skipif(os.name != "posix", reason="scripts of POSIX")
@pytest.mark.parametrize("missing", [False, True], ids=["all objects", "objects to fetch"])
def test_nothing_that_a_repository_names_runs(
    repository: tuple[Path, Path, Path], start: Start, missing: bool
) -> None:
    folder, program, mark = repository
    for name, value in CONFIGURED.items():
        if name != "remote.origin.vcs" or not missing:
            subprocess.run(["git", "config", name, value.format(program)], cwd=folder, check=True)
    (folder / ".gitattributes").write_text("* filter=f diff=f\n")
    (folder / ".git/info/attributes").write_text("* filter=f diff=f\n")
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc"):
        (folder / ".git/hooks" / hook).symlink_to(program)
    if missing:
        for path in (folder / ".git/objects").glob("??/*"):
            path.unlink()
    mark.unlink(missing_ok=True)
    done = start("check", "--diff-base", "HEAD", "--select=SL201", "--output-format=concise", cwd=folder)
    assert not mark.exists()
    assert done.stdout.startswith(b"a.py:9:9: SL201"), done.stdout + done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("name", ["config", "HEAD", "index", "packed-refs"])
def test_a_repository_of_pipes_is_refused(repository: tuple[Path, Path, Path], start: Start, name: str) -> None:
    folder, *_ = repository
    (folder / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(folder / ".git" / name)
    done = start("check", "--diff-base", "HEAD", cwd=folder)
    assert done.returncode == 2 and b"it is a pipe or a device" in done.stderr


def test_a_working_tree_elsewhere_is_refused(
    repository: tuple[Path, Path, Path], start: Start, tmp_path: Path
) -> None:
    folder, *_ = repository
    (tmp_path / "elsewhere").mkdir()
    subprocess.run(["git", "config", "core.worktree", str(tmp_path / "elsewhere")], cwd=folder, check=True)
    done = start("check", "--diff-base", "HEAD", cwd=folder)
    assert done.returncode == 2 and b"elsewhere" in done.stderr


def test_git_is_run_in_one_place() -> None:
    files = [path for path in (Path(__file__).parent.parent / "shardlint").rglob("*.py") if '"git"' in path.read_text()]
    assert [path.name for path in files] == ["git.py"]
