"""Programs that misbehave are contained and reported, forked or in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardlint.verify
from shardlint.verify.boot import BOOT
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.outcome import Outcome
from shardlint.verify.plan import check_self
from shardlint.verify.runner import Runner
from tests.programs import skip_without

skip_without("jax")
pytestmark = pytest.mark.longer


@pytest.fixture(scope="module", params=["fork", "fresh"])
def small(request: pytest.FixtureRequest) -> Iterator[Runner]:
    if request.param == "fork" and sys.platform != "linux":
        pytest.skip("jobs are forked on Linux only")
    with Runner(seconds=30, memory=2**30, at_once=2, fork=request.param == "fork") as started:
        yield started


def start(runner: Runner, folder: Path, sources: list[str], seconds: float = 60) -> list[Outcome]:
    """Load each source as a fixture file and return what became of it, in order."""
    jobs = []
    for index, source in enumerate(sources):
        file = folder / f"program{index}.py"
        file.write_text(source)
        jobs.append({"task": "collect", "devices": 2, "file": str(file), "seconds": seconds})
    return sorted(runner.run_jobs(jobs), key=lambda outcome: int(outcome.job["id"]))


def run(runner: Runner, folder: Path, source: str) -> Outcome:
    (outcome,) = start(runner, folder, [source])
    return outcome


HANG = "import time\nprint('waiting', flush=True)\ntime.sleep(1000)"
MISBEHAVING = [
    (
        "import os, signal\nprint('last words', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)",
        "crashed with SIGSEGV",
        "last words",
    ),
    ("while True: print('x' * 4096)", "killed after printing 16 MiB", "xxxx"),
    ("import sys\nsys.exit(3)", "the program called sys.exit(3)", ""),
    ("import os\nos._exit(0)", "ended too early, with exit code 0", ""),
    ("import os\nos._exit(7)", "exited with code 7", ""),
    ("raise KeyboardInterrupt", "raised KeyboardInterrupt", "raise KeyboardInterrupt"),
]


def test_misbehaving_programs(small: Runner, tmp_path: Path) -> None:
    outcomes = start(small, tmp_path, [source for source, _, _ in MISBEHAVING])
    for (_, stopped, printed), outcome in zip(MISBEHAVING, outcomes, strict=True):
        assert outcome.stopped.startswith(stopped), outcome
        assert printed in "\n".join(outcome.output), outcome
        assert len(outcome.output) <= 20


def test_hanging_programs(small: Runner, tmp_path: Path) -> None:
    # A fresh process may still be importing jax when its time is over; a forked one is in the program.
    asleep, busy = start(small, tmp_path, [HANG, "while True: pass"], 5)
    assert asleep.stopped == busy.stopped == "killed at the time limit of 5 s"
    assert asleep.output == ["waiting"] or not small.fork


@pytest.mark.skipif(not hasattr(signal, "SIGQUIT"), reason="signals of POSIX")
def test_programs_heed_signals_that_this_process_ignores(small: Runner, tmp_path: Path) -> None:
    """As a command does that a script has started in the background."""
    numbers = (signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        with Runner(seconds=30, fork=small.fork) as ignoring:
            shown = "import signal\nprint(*(signal.getsignal(one) is signal.SIG_IGN for one in (2, 3)))"
            assert run(ignoring, tmp_path, shown).output == ["False False"]
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def test_a_huge_allocation_is_refused(small: Runner, tmp_path: Path) -> None:
    outcome = run(
        small, tmp_path, "import jax.numpy as jnp\nx = jnp.ones((2**34,), jnp.float32).block_until_ready()"
    )
    (error,) = outcome.values_of_key("error")
    assert not outcome.stopped
    assert "RESOURCE_EXHAUSTED" in error
    assert "program0.py:2" in error
    outcome = run(small, tmp_path, "x = bytearray(2**36)")
    assert "MemoryError" in outcome.values_of_key("error")[0]


def test_what_a_program_starts_dies_with_it(small: Runner, tmp_path: Path) -> None:
    source = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "print(child.pid, flush=True)\n"
        "os._exit(1)\n"
    )
    outcome = run(small, tmp_path, source)
    assert outcome.stopped == "exited with code 1"
    state = Path(f"/proc/{outcome.output[-1]}/stat")
    for _ in range(600):
        # Killed, though perhaps not yet reaped by whoever inherits it.
        if not state.exists() or state.read_text().split(")")[1].split()[0] in "ZX":
            return
        time.sleep(0.1)
    pytest.fail("what the program started is still alive")


def test_a_program_after_them_is_fine(small: Runner, tmp_path: Path) -> None:
    outcome = run(small, tmp_path, "import jax\nassert len(jax.devices()) == 2\nprint('noise')")
    assert not outcome.stopped
    assert outcome.values_of_key("fixtures") == [[]]


def test_known_faults_are_caught(small: Runner) -> None:
    assert check_self(small) == [
        "caught a replicated output (compile)",
        "caught a dropped donation (compile)",
        "caught a wrong number (execute)",
    ]


def test_a_missed_fault_stops_the_run(runner: Runner) -> None:
    class Blind:
        def run_jobs(self, jobs: list[dict[str, object]]) -> Iterator[Outcome]:
            yield Outcome(jobs[0], [{"caught": [], "missed": ["a wrong number (execute): pass"]}])

    with pytest.raises(CannotRun, match="self-test failed"):
        check_self(Blind())  # type: ignore[arg-type]


def test_an_interpreter_without_jax_is_told_what_to_install(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    if not python.exists():
        python = tmp_path / "bare" / "Scripts" / "python.exe"
    with pytest.raises(CannotRun, match=r'pip install "shardlint\[verify\]"'), Runner(str(python)):
        pass
    with pytest.raises(CannotRun, match="cannot start"), Runner(str(tmp_path / "no-python")):
        pass


def test_children_import_nothing_but_shardlint_and_jax(tmp_path: Path) -> None:
    """They run under interpreters that have none of shardlint's own dependencies."""
    package = Path(shardlint.verify.__file__).parents[1]
    code = BOOT.split("from shardlint")[0] + (
        "from shardlint.verify.inside import tasks, zygote, fresh_process, fixtures, proofs, selftest\n"
        "from shardlint.verify.inside import coordinator, trace, worker\n"
        "import shardlint.verify\n"
        "bad = {'libcst', 'click', 'pathspec', 'packaging'} & set(sys.modules)\n"
        "assert not bad, bad\n"
        "ours = [name for name in sys.modules if name.startswith('shardlint.')]\n"
        "small = {'shardlint.' + name for name in ('config', 'source', 'output', 'config.certainty', 'source.files', 'config.suggestions', 'config.own_names', 'source.lazy', 'source.patterns', 'source.regular_files', 'output.printable', 'config.settings', 'config.targets', 'config.versions')}\n"
        "assert all(name.startswith('shardlint.verify') or name in small for name in ours), ours\n"
    )
    subprocess.run([sys.executable, "-c", code, str(package)], check=True, cwd=tmp_path)
