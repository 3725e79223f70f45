"""`shardlint run --processes 2` on programs with one mistake each, with two real processes, and on their twins.

`# here SL809` marks the line a report must name. A few run by default; `SHARDLINT_ALL_PROGRAMS=1` runs all.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "data" / "process_programs"
ALL = sorted(path.name for path in ROOT.iterdir() if (path / "bad.py").exists())
FEW = ("02_seed_by_process", "06_other_order")
NAMES = ALL if os.environ.get("SHARDLINT_ALL_PROGRAMS") else FEW
CODES = {"03_one_step_more": 124, "04_one_raises": 1}
PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
pytestmark = pytest.mark.skipif(os.name != "posix", reason="--processes")


def run(program: Path, folder: Path) -> tuple[int, dict[str, object], str]:
    words = [sys.executable, "-m", "shardlint", "run", "--processes", "2", "--devices", "2"]
    words += ["--timeout", "40", "--report", "out.json", "--", PYTHON, str(program)]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    return ended.returncode, json.loads((folder / "out.json").read_text()), ended.stdout + ended.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_mistake_is_named_at_its_line(name: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    path = ROOT / name / "bad.py"
    code, report, output = run(path, tmp_path)
    assert name == "06_other_order" or code == CODES.get(name, 0), output  # gloo may raise or wait
    found = {(one["line"]["line"], one["code"]) for one in report["findings"]}  # type: ignore[attr-defined]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if mark := re.search(r"# here ?(\S*)", line):
            assert (number, mark[1]) in found, output


@pytest.mark.parametrize("name", NAMES)
def test_the_twin_has_no_finding(name: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    code, report, output = run(ROOT / name / "good.py", tmp_path)
    assert code == 0, output
    assert report["findings"] == []
    assert report["notes"] == []


def test_a_program_that_never_joins_is_not_compared(tmp_path: Path) -> None:
    program = tmp_path / "alone.py"
    program.write_text("import os\nprint('hello')\nopen('same.txt', 'w').close()\nprint(os.getpid())\n")
    code, report, output = run(program, tmp_path)
    assert code == 0
    assert report["findings"] == []
    assert "each of the 2 processes ran alone" in str(report["notes"])
    assert output.count("hello") == 1
    assert re.search(r"^\[0\] \d+$", output, re.M) and re.search(r"^\[1\] \d+$", output, re.M)
