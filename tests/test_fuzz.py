"""A small share of the fuzz, and that the fuzz would see what it looks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from tests.loading import ROOT, load

pytestmark = [pytest.mark.longer, pytest.mark.skipif(os.name != "posix", reason="the limit is of POSIX")]
FIXTURES = ROOT / "fixtures"


@pytest.fixture
def fuzz() -> Iterator[ModuleType]:
    import signal

    before = signal.getsignal(signal.SIGPROF)
    yield load("fuzz")
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def start(tmp_path: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    programs = tmp_path / "programs"  # there is one: none is generated, which takes a while
    programs.mkdir()
    (programs / "one.py").write_text("async def f(x, *y, z=lambda: 0): return [x for x in y if (z := x)]\n")
    command = [
        sys.executable,
        str(ROOT / "scripts" / "fuzz.py"),
        "--seed=7",
        "--jobs=1",
        "--packages=equinox",
    ]
    return subprocess.run(
        [*command, f"--programs={programs}", f"--keep={tmp_path / 'kept'}", *arguments],
        text=True,
        capture_output=True,
        timeout=300,
        env={**os.environ, **env},
    )


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no fixtures here")
def test_a_share_of_it_finds_nothing(tmp_path: Path) -> None:
    done = start(tmp_path, "--files=120", "--jobs=2")  # two blocks
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert (said["done"], said["reached"], said["cases"], said["failures"]) == (True, 119, 120, {})
    assert said["findings"] > 50 and said["fixed"], "the files leave nothing to look at"
    assert not (tmp_path / "kept").exists()


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no fixtures here")
def test_a_process_that_dies_is_told_and_the_rest_is_done(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if any('spawn' in part for part in sys.orig_argv):\n"
        "    import shardlint.engine.one_file as check\n"
        "    real, left = check.Checker.check_file, [4]\n"
        "    def dying(self, *arguments):\n"
        "        left[0] -= 1\n"
        "        return real(self, *arguments) if left[0] else os._exit(9)\n"
        "    check.Checker.check_file = dying\n"
    )
    done = start(tmp_path, "--files=5", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert set(said["failures"]) == {"died"}
    assert (said["done"], said["reached"]) == (True, 4)
    (first, *_) = sorted((tmp_path / "kept").iterdir())
    assert "exit code 9" in (first / "what.txt").read_text()
    assert (first / "m0.py").exists()


def test_the_same_number_is_the_same_case(fuzz: ModuleType) -> None:
    bases = fuzz.find_bases(packages=())
    one, two = fuzz.make_case(3, 5, bases), fuzz.make_case(3, 5, fuzz.find_bases(packages=()))
    assert one == two
    assert one.files != fuzz.make_case(3, 6, bases).files != fuzz.make_case(4, 6, bases).files
    assert (
        len({bytes(case.files["m0.py"]) for case in (fuzz.make_case(3, n, bases) for n in range(40))}) == 40
    )


def kinds(fuzz: ModuleType, folder: Path, text: str, limit: float = 5.0, command: bool = False) -> list[str]:
    case = fuzz.Case(0, {"m0.py": text.encode()}, Options(certainty=Certainty.POSSIBLE))
    return [failure.kind for failure in fuzz.Examiner(folder / "w", limit).examine_case(case, command)]


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import jax\njax.device_put(1)\n", []),
        ("import numpy as np\nnp.exp(1)\n", ["crash", "fix crash"]),
    ],
)
def test_a_rule_that_raises_is_seen(fuzz: ModuleType, tmp_path: Path, text: str, found: list[str]) -> None:
    assert kinds(fuzz, tmp_path, text) == found


def test_what_hangs_is_seen(fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz, "check_paths", hang)
    assert kinds(fuzz, tmp_path, "x = 1\n", limit=0.2) == ["slow"]


def test_a_wrong_exit_code_is_seen(fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: object, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, 2, "", "")

    monkeypatch.setattr(fuzz.Examiner, "_run_command", wrong)
    assert kinds(fuzz, tmp_path, "import jax\n", command=True) == ["exit code", "fix exit code"]


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (b"x = (\n", ["fix breaks"]),
        (b"x = 2\n", []),
    ],
)
def test_a_fix_that_breaks_a_file_is_seen(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bytes, found: list[str]
) -> None:
    real = fuzz.fix_files

    def breaking(paths: list[Path], *arguments: object, **kwargs: object) -> object:
        (paths[0] / "m0.py").write_bytes(after)
        return real(paths, *arguments, **kwargs)

    monkeypatch.setattr(fuzz, "fix_files", breaking)
    assert kinds(fuzz, tmp_path, "x = 1\n") == found


def test_files_left_behind_are_seen(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fuzz.fix_files

    def littering(paths: list[Path], *arguments: object, **kwargs: object) -> object:
        (paths[0] / ".m0.py.shardlint").touch()
        return real(paths, *arguments, **kwargs)

    monkeypatch.setattr(fuzz, "fix_files", littering)
    assert kinds(fuzz, tmp_path, "x = 1\n") == ["fix left files"]
