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

from tests.programs import skip_without

ROOT = Path(__file__).parent / "data" / "process_programs"
ALL = sorted(path.name for path in ROOT.iterdir() if (path / "bad.py").exists())
FEW = ("02_seed_by_process", "06_other_order", "08_same_rows_in_each_process")
NAMES = ALL if os.environ.get("SHARDLINT_ALL_PROGRAMS") else FEW
# Programs that take their process as arguments.
ARGUMENTS = {"08_same_rows_in_each_process": ["--rank={process}", "--world={processes}", "--address={coordinator}"]}
CODES = {"03_one_step_more": 124, "04_one_raises": 1}
PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)
pytestmark = [pytest.mark.longer, pytest.mark.skipif(os.name != "posix", reason="--processes")]


def run(program: Path, folder: Path, seconds: int = 40) -> tuple[int, dict[str, object], str]:
    words = [sys.executable, "-m", "shardlint", "run", "--processes", "2", "--devices", "2"]
    words += ["--timeout", str(seconds), "--report", "out.json", "--", PYTHON, str(program)]
    words += ARGUMENTS.get(program.parent.name, [])
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    return ended.returncode, json.loads((folder / "out.json").read_text()), ended.stdout + ended.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_mistake_is_named_at_its_line(name: str, tmp_path: Path) -> None:
    skip_without("jax")
    path = ROOT / name / "bad.py"
    code, report, output = run(path, tmp_path)
    assert name == "06_other_order" or code == CODES.get(name, 0), output  # gloo may raise or wait
    found = {(one["line"]["line"], one["code"]) for one in report["findings"]}  # type: ignore[attr-defined]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if mark := re.search(r"# here ?(\S*)", line):
            assert (number, mark[1]) in found, output


@pytest.mark.parametrize("name", NAMES)
def test_the_twin_has_no_finding(name: str, tmp_path: Path) -> None:
    skip_without("jax")
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
    assert "the 2 processes run independently" in str(report["notes"])
    assert output.count("hello") == 1
    assert re.search(r"^\[0\] \d+$", output, re.M) and re.search(r"^\[1\] \d+$", output, re.M)


SOCKETS = """
import os, socket, sys
mine, other = socket.socket(), socket.socket()
mine.bind(("127.0.0.1", 0))
mine.listen()
def greet():
    peer, _ = mine.accept()
    return peer.recv(1)
def main():
    greet()
main()
"""
FILES = """
import os, time
def barrier():
    while not os.path.exists("never"):
        time.sleep(0.1)
if int(os.environ["SHARDLINT_RUN_PROCESS"]):
    time.sleep(1e9)
barrier()
"""
GIVES_UP = """
import os, time
if int(os.environ["SHARDLINT_RUN_PROCESS"]):
    open("waits", "w").close(); time.sleep(1e9)
while not os.path.exists("waits"): time.sleep(0.1)
raise TimeoutError("the other host did not come")
"""
APART = """
import jax
import jax.numpy as jnp
import numpy as np
import os, time
from jax.sharding import NamedSharding, PartitionSpec as P

jax.distributed.initialize()
mesh = jax.make_mesh((len(jax.devices()),), ("data",))
split = NamedSharding(mesh, P("data"))
step = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, P()))
x = jax.make_array_from_process_local_data(split, np.ones((8, 16), np.float32))
print(step(x))
if jax.process_index() == 1:
    while not os.path.exists("never"):
        time.sleep(0.1)
print(step(x))
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [(SOCKETS, {7}), (FILES, {5, 7}), (GIVES_UP, {4, 6})],
    ids=["sockets", "files", "gives up"],
)
def test_a_hang_without_jax_is_named_with_the_line_of_each(text: str, lines: set[int], tmp_path: Path) -> None:
    program = tmp_path / "hosts.py"
    program.write_text(text)
    code, report, output = run(program, tmp_path, 12)
    assert code in (1, 124), output
    (found,) = report["findings"]  # type: ignore[misc]
    assert found["kind"] == "hang", output
    assert {found["line"]["line"], *(line["line"] for _, line in found["see"])} == lines
    assert "process 0 waited at" in found["message"] and "process 1 waited at" in found["message"]


def test_one_that_waits_elsewhere_is_no_exception(tmp_path: Path) -> None:
    skip_without("jax")
    program = tmp_path / "apart.py"
    program.write_text(APART)
    code, report, output = run(program, tmp_path)
    assert code in (1, 124), output
    (found,) = report["findings"]  # type: ignore[misc]
    assert found["kind"] in ("missing-process", "hang"), output
    assert found["line"]["line"] == 17
    assert "waited at apart.py:17" in found["message"]
    assert re.search(r"process 1 (was|waited) at apart.py:1[56]", found["message"]), output
