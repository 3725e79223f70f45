"""Programs that turn on what runs them: whatever they do to its pipes, its files, its signals or itself is told of
them alone, in bounded time, and the others keep their results.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.verify import children, messages
from shardlint.verify import runner as running
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.plan import Request, verify_fixtures
from shardlint.verify.report import Result
from shardlint.verify.runner import Runner
from shardlint.verify.shard import Shard
from tests.programs import skip_without

skip_without("jax")
pytestmark = [pytest.mark.longer, pytest.mark.skipif(sys.platform != "linux", reason="jobs are forked on Linux only")]

PRELUDE = """
import fcntl, os, signal, stat, sys, tempfile, time
import jax
from shardlint.verify import Fixture, P, arg

def fixture(fn, **more):
    return Fixture(fn, meshes=[{"d": 2}], args=[arg(shape=(4,), spec=P("d"))], out={"": P("d")}, **more)

def write_to_pipes(data, skipped=0):
    for descriptor in range(3, 64):
        try:
            is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
            if is_pipe and fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                if skipped:
                    skipped -= 1
                else:
                    os.write(descriptor, data)
        except OSError:
            pass

def f(x):
    return x * 2
"""
OK = "step = fixture(jax.jit(f))\n"

Run = Callable[..., dict[str, list[Result]]]


@pytest.fixture
def run(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Verify programs given by name, from the folder they are in; the results of each."""
    monkeypatch.chdir(tmp_path)

    def verify(using: Runner = runner, **programs: str) -> dict[str, list[Result]]:
        # A zygote is where it was started: the one all tests share is not here.
        folder = tmp_path if using is runner else Path()
        for name, source in programs.items():
            Path(f"{name}.py").write_text(PRELUDE + textwrap.dedent(source))
        found: dict[str, list[Result]] = {name: [] for name in programs}
        for result in verify_fixtures(using, Request({folder / f"{name}.py": () for name in programs})):
            found[Path(result.fixture.rpartition("::")[0] or result.target).stem].append(result)
        return found

    return verify


def told(results: list[Result]) -> str:
    """All that failed, as one text."""
    return "\n".join(failure.message for result in results for failure in result.failures)


def passes(results: list[Result]) -> bool:
    return [(result.level, result.status) for result in results] == [("compile", "pass"), ("execute", "pass")]


@pytest.mark.parametrize(
    ("end", "how"),
    [("os._exit(3)", "exited with code 3"), ("os.kill(os.getpid(), 11)", "crashed with SIGSEGV")],
)
def test_a_copy_of_the_process_speaks_not_for_it(run: Run, end: str, how: str) -> None:
    found = run(left=f"{OK}pid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n    {end}\n")
    assert told(found["left"]) == how
    assert {result.status for result in found["left"]} == {"fail"}


def test_of_two_copies_that_go_on_the_first_is_told_once(run: Run) -> None:
    source = """
    pid = os.fork()
    step = fixture(jax.jit(f))
    if pid:
        os.waitpid(pid, 0)
    """
    assert passes(run(both=source)["both"])


def test_a_crash_after_the_last_result_makes_that_a_failure(run: Run) -> None:
    source = """
    class Dies:
        def flush(self): os._exit(5)
        def write(self, text): pass
    def g(x):
        if not isinstance(x, jax.core.Tracer):
            sys.stdout = Dies()
        return x * 2
    step = fixture(g)
    """
    found = run(late=source)["late"]
    assert [result.status for result in found] == ["pass", "fail"]
    assert told(found) == "exited with code 5"


@pytest.mark.parametrize("folder", ["tempfile.gettempdir()", "tempfile.mkdtemp()"])
def test_a_program_may_change_or_lose_its_working_directory(run: Run, folder: str) -> None:
    move = f"here = {folder}\nos.chdir(here)\nif here != tempfile.gettempdir():\n    os.rmdir(here)\n"
    mistake = "def g(x):\n    raise ValueError('user mistake')\nstep = fixture(g)\n"
    with Runner(seconds=60, at_once=2) as here:
        found = run(here, sound=move + OK, wrong=move + mistake)
    assert passes(found["sound"])
    assert "raised ValueError: user mistake" in told(found["wrong"])
    assert "wrong.py:" in told(found["wrong"])


@pytest.mark.parametrize(
    "data", [b"hello\n", b"5\n", b'{"result": {"target": 3}}\n', b"without an end" * 5000], ids=len
)
def test_what_a_program_writes_to_the_verifiers_pipe_fails_it_alone(run: Run, data: bytes) -> None:
    source = f"def g(x):\n    write_to_pipes({data!r})\n    return x * 2\nstep = fixture(g)\n"
    found = run(writes=source, sound=OK)
    assert messages.SPOILT in told(found["writes"])
    assert not [result for result in found["writes"] if result.status == "pass"]
    assert passes(found["sound"])


def test_what_one_of_several_processes_writes_to_its_pipe_fails_the_program(run: Run) -> None:
    source = """
    def g(x):
        write_to_pipes(b"5\\n", skipped=0 if jax.process_count() > 1 else 64)
        return x * 2
    step = fixture(g, processes=2)
    """
    found = run(writes=source)["writes"]
    (result,) = (result for result in found if result.level == "processes")
    assert result.status == "fail"
    who, _, _ = told([result]).partition(messages.SPOILT)
    assert who in ("process 0 ", "process 1 ", "every process ")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "class E(Exception):\n    def __str__(self): raise E()\n    __repr__ = __str__\nraise E('x')\n",
            "raised E: (its str() raised E)",
        ),
        (
            "class E(BaseException):\n    def __str__(self): raise E()\n    __repr__ = __str__\nraise E('x')\n",
            "raised E: (its str() raised E)",
        ),
        (
            "class C:\n    def __repr__(self): raise ValueError\nsys.exit(C())\n",
            "the program called sys.exit((its repr() raised ValueError))",
        ),
    ],
    ids=["exception", "base", "exit"],
)
def test_an_exception_that_cannot_say_what_it_is_is_told_by_its_type(
    run: Run, source: str, said: str
) -> None:
    assert told(run(mute=source)["mute"]).startswith(said)


def test_a_huge_message_is_told_by_its_beginning(run: Run) -> None:
    found = run(loud="raise ValueError('A\\x1b\\ud800' * 8_000_000)\n")["loud"]
    assert told(found).startswith("raised ValueError: A\x1b\ud800A")
    assert "... (23996000 more characters)\nat " in told(found)
    assert "loud.py:" in told(found)
    assert len(told(found)) < 5000


@pytest.mark.parametrize(
    "closing",
    [
        "sys.stdout = sys.stderr = None",
        "sys.stdout.close(); sys.stderr.close()",
        "os.close(1); os.close(2)",
    ],
)
def test_a_program_without_standard_streams_passes(run: Run, closing: str) -> None:
    assert passes(run(silent=f"{closing}\n{OK}")["silent"])


def test_a_program_that_takes_the_way_out_away_still_ends(run: Run) -> None:
    source = f"{OK}os._exit = lambda code: None\n"
    slow = f"{OK}time.sleep(1)\n"
    found = run(endless=source, slow=slow)
    assert passes(found["endless"])
    assert passes(found["slow"])


@pytest.mark.parametrize("plant", ["os.mkfifo", "os.mkdir"])
def test_what_is_planted_where_a_compiler_is_heard_is_left_alone(
    run: Run, plant: str, tmp_path: Path
) -> None:
    source = f"path = f'{{tempfile.gettempdir()}}/shardlint-heard-{{os.getpid()}}.txt'\n{plant}(path)\n"
    source += f"open({str(tmp_path / 'planted')!r}, 'w').write(path)\nos._exit(3)\n"
    try:
        assert told(run(plants=source)["plants"]) == "exited with code 3"
    finally:
        path = Path((tmp_path / "planted").read_text())
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


@pytest.mark.parametrize("number", ["SIGSTOP", "SIGINT"])
def test_a_signal_to_what_starts_the_programs_changes_nothing(run: Run, number: str) -> None:
    source = f"{OK}os.kill(os.getppid(), signal.{number})\ntime.sleep(0.2)\n"
    found = run(signals=source, sound=OK)
    assert passes(found["signals"])
    assert passes(found["sound"])


def test_the_loss_of_what_starts_the_programs_fails_those_that_ran_and_keeps_the_rest(run: Run) -> None:
    kills = "def g(x):\n    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(30)\nstep = fixture(g)\n"
    with Runner(seconds=60, memory=2**31, at_once=1) as runner:
        found = run(runner, first=OK, kills=kills, last=OK)
        assert passes(found["first"])
        assert passes(found["last"])
        assert "the process that starts the programs, which crashed with SIGKILL" in told(found["kills"])


def test_a_process_that_does_not_end_with_its_input_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_END_SECONDS", 0.2)
    monkeypatch.setattr(children, "keep_going", lambda pid: None)
    with Runner() as runner:
        zygote = runner._zygote
        assert zygote is not None
        os.kill(zygote.pid, signal.SIGSTOP)
    assert zygote.returncode == -signal.SIGKILL


@pytest.mark.parametrize("fork", [True, False])
@pytest.mark.parametrize("greeting", ["5", "{}", "hello", '{"python": "3", "releases": 4}'])
def test_an_interpreter_that_says_something_else_is_told_and_ended(
    tmp_path: Path, greeting: str, fork: bool
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {tmp_path}/pid\necho '{greeting}'\nwait\n")
    python.chmod(0o755)
    with pytest.raises(CannotRun) as refused, Runner(str(python), fork=fork):
        pass
    until = time.monotonic() + 60
    assert f"{python} did not start the verifier but wrote {greeting + chr(10)!r} first" in str(refused.value)
    state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    # Killed, though perhaps not yet reaped by whoever inherits it.
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_interrupt_while_jax_is_imported_ends_the_command(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nsleep 0.3\necho > {tmp_path}/started\nsleep 300\n")
    python.chmod(0o755)
    (tmp_path / "ok.py").write_text(PRELUDE + OK)
    command = [sys.executable, "-m", "shardlint", "verify", "--python", str(python), "ok.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert b"interrupted" in output
    assert process.returncode == 2


def test_all_that_holds_in_processes_of_their_own(run: Run) -> None:
    with Runner(seconds=60, memory=2**31, at_once=2, fork=False) as fresh:
        found = run(
            fresh,
            left=f"{OK}pid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n    os._exit(3)\n",
            writes="write_to_pipes(b'without an end' * 5000)\ntime.sleep(60)\n",
            silent=f"os.close(1); os.close(2)\nos._exit = lambda code: None\n{OK}",
        )
    assert told(found["left"]) == "exited with code 3"
    assert told(found["writes"]) == messages.SPOILT
    assert passes(found["silent"])


def test_a_name_with_colons_may_be_skipped_in_a_shard(runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "named.py"
    skipped = "globals()['x::y'] = Fixture(f, meshes=[{'d': 3}], args=[arg(shape=(4,), spec=P('d'))], out={'': P()})\n"
    file.write_text(PRELUDE + skipped)
    results = verify_fixtures(runner, Request({file: ()}, shard=Shard(1, 1)))
    assert [result.status for result in results] == ["skip", "skip", "fail"]
    assert told(results) == "checks nothing: it was skipped everywhere"


def test_a_value_that_lies_about_its_class_is_no_fixture(run: Run) -> None:
    lazy = "class Lazy:\n    @property\n    def __class__(self): raise RuntimeError\nlazy = Lazy()\n"
    assert passes(run(lazy=lazy + OK)["lazy"])
