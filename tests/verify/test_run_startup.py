"""Tests of the environment of a program under `shardlint run`, and of its sitecustomize, which must not disturb the
program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardlint.run.launch import FLAGS, command_line, environment_remarks, run_environment

COUNT = "--xla_force_host_platform_device_count"


def python(folder: Path, source: str, told: bool = False, devices: int = 8, **given: str) -> str:
    """Return the output of a program that runs with the environment of the command."""
    base = {key: value for key, value in os.environ.items() if key not in ("XLA_FLAGS", "PYTHONPATH")}
    env = run_environment(folder, devices, told, {**base, **given})
    ended = subprocess.run(
        [sys.executable, "-c", source], env=env, capture_output=True, text=True, check=True
    )
    assert not ended.stderr
    return ended.stdout.strip()


SHOW = "import os; print(os.environ['XLA_FLAGS'])"


def test_flags_of_the_user_stay(tmp_path: Path) -> None:
    flags = python(tmp_path, SHOW, XLA_FLAGS="--xla_a=1 --xla_b=2").split()
    assert flags[:2] == ["--xla_a=1", "--xla_b=2"]
    assert set(FLAGS) <= set(flags)
    assert flags.count(f"{COUNT}=8") == 1
    # A folder for each process, once.
    assert len([flag for flag in flags if flag.startswith(f"--xla_dump_to={tmp_path}")]) == 1


@pytest.mark.parametrize(
    ("given", "told", "count"),
    [
        ({}, False, "8"),
        ({"XLA_FLAGS": f"{COUNT}=4"}, False, "4"),
        ({"XLA_FLAGS": f"{COUNT}=4"}, True, "8"),
    ],
)
def test_the_number_of_devices(tmp_path: Path, given: dict[str, str], told: bool, count: str) -> None:
    flags = python(tmp_path, SHOW, told, **given).split()
    assert [flag for flag in flags if flag.startswith(COUNT)][-1] == f"{COUNT}={count}"


def test_jax_num_cpu_devices(tmp_path: Path) -> None:
    given = {"JAX_NUM_CPU_DEVICES": "4"}
    assert COUNT not in run_environment(tmp_path, 8, False, given)["XLA_FLAGS"]
    assert run_environment(tmp_path, 8, False, given)["JAX_NUM_CPU_DEVICES"] == "4"
    assert run_environment(tmp_path, 8, True, given)["JAX_NUM_CPU_DEVICES"] == "8"


def test_flags_the_program_sets(tmp_path: Path) -> None:
    source = f"import os; os.environ['XLA_FLAGS'] = '{COUNT}=4'; {SHOW}"
    flags = python(tmp_path, source).split()
    assert [flag for flag in flags if flag.startswith(COUNT)] == [f"{COUNT}=4"]
    assert set(FLAGS) <= set(flags)
    told = python(tmp_path, source, True).split()
    assert [flag for flag in told if flag.startswith(COUNT)][-1] == f"{COUNT}=8"
    again = f"import os\nfor _ in range(3): os.environ['XLA_FLAGS'] = os.environ['XLA_FLAGS'] + ' --xla_c=1'\n{SHOW}"
    assert [python(tmp_path, again).split().count(flag) for flag in FLAGS] == [1] * len(FLAGS)


def test_the_environment_is_an_environment(tmp_path: Path) -> None:
    source = (
        "import os, copy\n"
        "from unittest import mock\n"
        "before = dict(os.environ)\n"
        "with mock.patch.dict(os.environ, {'A': 'b'}, clear=True):\n"
        "    assert dict(os.environ) == {'A': 'b'}\n"
        "assert dict(os.environ) == before\n"
        "os.environ.pop('XLA_FLAGS'); assert 'XLA_FLAGS' not in os.environ\n"
        "try:\n    os.environ['A'] = 1\nexcept TypeError:\n    print(type(os.environ).__name__)\n"
    )
    assert python(tmp_path, source) == "_Environ"


def test_it_hands_over_to_the_sitecustomize_behind_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("MINE = 1\n")
    source = "import sys, sitecustomize; print(sitecustomize.MINE, [p for p in sys.path if 'sanitizer' in p])"
    assert python(tmp_path, source, PYTHONPATH=str(tmp_path)) == "1 []"
    without = "import sys; print([p for p in sys.path if 'sanitizer' in p])"
    assert python(tmp_path, without) == "[]"


def test_a_broken_sitecustomize_is_told_as_ever(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    env = run_environment(tmp_path, 8, False, {**os.environ, "PYTHONPATH": str(tmp_path)})
    ended = subprocess.run([sys.executable, "-c", "print(1)"], env=env, capture_output=True, text=True)
    assert ended.stdout == "1\n"
    assert "no_such_module" in ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_a_folder_of_its_own(tmp_path: Path) -> None:
    source = (
        "import os\n"
        "def folder(): return os.environ['XLA_FLAGS'].split('--xla_dump_to=')[1]\n"
        "mine = folder(); pid = os.fork()\n"
        "if pid == 0:\n    os._exit(0 if folder() != mine and folder().endswith(str(os.getpid())) else 1)\n"
        "print(os.waitpid(pid, 0)[1])"
    )
    assert python(tmp_path, source) == "0"


def test_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line(["-m", "package", "-x"]) == [sys.executable, "-m", "package", "-x"]
    assert command_line(["train.py", "--steps", "2"]) == [sys.executable, "train.py", "--steps", "2"]
    assert command_line(["python", "train.py"]) == ["python", "train.py"]


def test_dumps_of_the_user_are_told_of() -> None:
    assert environment_remarks({"XLA_FLAGS": "--xla_a=1"}) == []
    assert "--xla_dump_to=/x" in environment_remarks({"XLA_FLAGS": "--xla_a=1 --xla_dump_to=/x"})[0]
