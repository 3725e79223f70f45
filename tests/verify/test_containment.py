"""Programs that try to get away: more processes than a job may have, processes that leave its group, and the
same from one of several `jax.distributed` processes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardlint.verify import containment
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.outcome import Outcome
from shardlint.verify.report import Result
from shardlint.verify.runner import Runner
from tests.programs import skip_without

skip_without("jax")
pytestmark = [pytest.mark.longer, pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")]

# Each has left its number where the test finds it when `escape` returns, sleeps, and is in no group of the job's.
ESCAPE = """
import os, time
from pathlib import Path

def escape(folder):
    heard, said = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            (Path(folder) / str(os.getpid())).touch()
            os.write(said, b".")
            time.sleep(300)
        os._exit(0)
    os.read(heard, 1)
    os.close(heard)
    os.close(said)

def state(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
"""


@pytest.fixture(scope="module")
def small() -> Iterator[Runner]:
    with Runner(seconds=30, memory=2**30, at_once=2) as started:
        yield started


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def start(runner: Runner, folder: Path, sources: list[str], **limits: Any) -> list[Outcome]:
    jobs = []
    for index, source in enumerate(sources):
        file = folder / f"program{index}.py"
        file.write_text(source)
        jobs.append({"task": "collect", "devices": 2, "file": str(file), **limits})
    return sorted(runner.run_jobs(jobs), key=lambda outcome: int(outcome.job["id"]))


def alive(marks: Path) -> list[str]:
    """The processes that have left a mark and live, after a moment in which they may be reaped."""
    for _ in range(50):
        left = [mark.name for mark in marks.iterdir() if _lives(int(mark.name))]
        if not left:
            return []
        time.sleep(0.1)
    return left


def _lives(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_orphans_in_sessions_of_their_own_end_with_the_program(
    small: Runner, tmp_path: Path, marks: Path
) -> None:
    started = f"{ESCAPE}\nfor _ in range(3): escape({str(marks)!r})\n"
    ends = ["", "os._exit(1)", "import signal; os.kill(os.getpid(), signal.SIGSEGV)"]
    ended, left, crashed = start(small, tmp_path, [started + end for end in ends])
    assert (ended.stopped, left.stopped, crashed.stopped) == (
        "",
        "exited with code 1",
        "crashed with SIGSEGV",
    )
    assert len(list(marks.iterdir())) == 9
    assert alive(marks) == []


def test_another_job_keeps_its_own_orphans(small: Runner, tmp_path: Path, marks: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    long = f"""{ESCAPE}
escape({str(other)!r})
while not (theirs := os.listdir({str(marks)!r})) or state(theirs[0]) not in "ZX":
    time.sleep(0.05)
(mine,) = os.listdir({str(other)!r})
print("still there" if state(mine) == "S" else "gone", flush=True)
os._exit(1)
"""
    short = f"{ESCAPE}\nescape({str(marks)!r})\n"
    patient, _ = start(small, tmp_path, [long, short])
    assert patient.output == ["still there"]
    assert alive(marks) == alive(other) == []


def test_a_program_that_forks_without_end_is_ended(small: Runner, tmp_path: Path, marks: Path) -> None:
    bomb = f"{ESCAPE}\nfor _ in range(1500): escape({str(marks)!r})\ntime.sleep(60)\n"
    (outcome,) = start(small, tmp_path, [bomb], children=40)
    assert outcome.stopped == "killed after starting more than 40 processes"
    assert alive(marks) == []
    (after,) = start(small, tmp_path, ["import jax\nassert len(jax.devices()) == 2\n"])
    assert not after.stopped


def test_a_program_that_started_them_and_hangs_is_ended_with_them(
    small: Runner, tmp_path: Path, marks: Path
) -> None:
    (outcome,) = start(small, tmp_path, [f"{ESCAPE}\nescape({str(marks)!r})\ntime.sleep(60)\n"], seconds=5)
    assert outcome.stopped == "killed at the time limit of 5 s"
    assert len(list(marks.iterdir())) == 1
    assert alive(marks) == []


def test_the_command_gone_ends_all(tmp_path: Path, marks: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"{ESCAPE}\nescape({str(marks)!r})\nescape({str(marks)!r})\ntime.sleep(60)\n")

    def run(runner: Runner) -> None:
        with contextlib.suppress(CannotRun, ValueError):
            list(runner.run_jobs([{"task": "collect", "devices": 2, "file": str(file)}]))

    with Runner(seconds=30, memory=2**30) as runner:
        thread = threading.Thread(target=run, args=(runner,))
        thread.start()
        until = time.monotonic() + 300
        while len(list(marks.iterdir())) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
    assert alive(marks) == []
    thread.join(5)


MISBEHAVING = (
    ESCAPE
    + """
import jax, sys
import jax.numpy as jnp
from shardlint.verify import Fixture, P, arg

def last(x): return jax.process_index() == 1

def allocates(x):
    if last(x):
        jnp.ones((2**34,), jnp.float32).block_until_ready()
    return x

def prints(x):
    while last(x):
        print("x" * 4096)
    return x

def leaves(x):
    escape({marks!r})
    while len(os.listdir({marks!r})) < 2:  # the other's
        time.sleep(0.05)
    if last(x):
        os._exit(3)
    return x

def of(fn):
    return Fixture(fn, [{{"data": 4}}], [arg(shape=(8, 4), spec=P("data"))], processes=2)

allocates, prints, leaves = of(allocates), of(prints), of(leaves)
"""
)


def test_one_of_several_processes_is_contained(small: Runner, tmp_path: Path, marks: Path) -> None:
    file = tmp_path / "fx.py"
    body = MISBEHAVING[len(ESCAPE) :].format(marks=str(marks))
    file.write_text(ESCAPE + body)
    names = ["allocates", "prints", "leaves"]
    jobs = [
        {"task": "processes", "file": str(file), "name": name, "label": name, "mesh": {"data": 4}}
        | {"levels": ["processes"], "devices": 2, "processes": 2, "limit": 80, "seconds": 90, "stall": 20}
        for name in names
    ]
    outcomes = sorted(small.run_jobs(jobs), key=lambda outcome: int(outcome.job["id"]))
    (allocates,), (leaves,) = (
        [Result.decode_result(one) for one in outcomes[index].values_of_key("result")] for index in (0, 2)
    )
    assert "RESOURCE_EXHAUSTED" in allocates.failures[0].message
    assert allocates.failures[0].message.startswith("process 1 raised ")
    assert outcomes[1].stopped == "killed after printing 16 MiB"
    assert leaves.failures[0].message.startswith("process 1 exited with code 3 while running fn")
    assert len(list(marks.iterdir())) == 2
    assert alive(marks) == []


def test_the_living_below_a_process_are_found() -> None:
    before = containment.processes_below(os.getpid())
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        assert set(containment.processes_below(os.getpid())) - set(before) == {pid}
        assert pid not in containment.processes_below(os.getpid(), [pid])
        assert containment.processor_ticks(os.getpid()) > 0
    finally:
        os.kill(pid, 9)
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        assert pid not in containment.processes_below(os.getpid())
        os.waitpid(pid, 0)
    assert containment.processor_ticks(pid) == 0
