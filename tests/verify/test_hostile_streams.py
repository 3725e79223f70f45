"""`verify` and `run` where output is closed or full, the working directory is removed, or a report cannot be written:
the results and the exit code are what they would have been.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from shardlint.verify.progress import Progress

pytestmark = [
    pytest.mark.longer,
    pytest.mark.skipif(
        not Path("/dev/full").exists(), reason="shells, signals and a full disk of POSIX"
    ),
]

SHARDLINT = f"{shlex.quote(sys.executable)} -m shardlint"
GONE = "import os, shutil; shutil.rmtree(os.getcwd())"
# All of it is printed at the end: bytes are moved, and there is a line they are moved at.
FIXTURE = """\
import jax
from shardlint.verify import Fixture, P, arg

def total(x):
    return x.sum(0)

step = Fixture(
    fn=jax.jit(total), meshes=[{"data": 2}], args=[arg(shape=(4, 8), spec=P("data"))], out={"": P()}
)
"""


def shell(
    command: str, folder: Path, streams: str = "", before: str = SHARDLINT
) -> subprocess.CompletedProcess[str]:
    """Run `shardlint COMMAND`, with its streams as the shell's redirections say."""
    line = f"exec {before} {command} {streams}"
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-"])
def test_the_programs_exit_code_and_the_reports_outlast_standard_error(tmp_path: Path, streams: str) -> None:
    assert shell("run --report r.json -- sh -c 'exit 7'", tmp_path, streams).returncode == 7
    assert json.loads((tmp_path / "r.json").read_text())["exit_code"] == 7


@pytest.mark.parametrize(
    ("command", "streams", "code"),
    [
        ("run -- true", "2>&-", 0),
        ("run -- true", "2>/dev/full", 2),
        ("run -- no-such-command", "2>/dev/full", 2),
        ("verify nowhere.py", "2>/dev/full", 2),
    ],
)
def test_what_cannot_be_told_counts_as_not_done_unless_output_is_closed(
    tmp_path: Path, command: str, streams: str, code: int
) -> None:
    assert shell(command, tmp_path, streams).returncode == code


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_output_fails_no_verification(tmp_path: Path, streams: str) -> None:
    (tmp_path / "fx.py").write_text(FIXTURE)
    ran = shell("verify fx.py --level compile --report r.html", tmp_path, streams)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ("1 passed" in ran.stdout) == (streams == "2>&-")
    assert "fx:total" in (tmp_path / "r.html").read_text()


def test_progress_nobody_takes_fails_no_verification(tmp_path: Path) -> None:
    (tmp_path / "fx.py").write_text(FIXTURE)
    impatient = (
        "from shardlint.verify import progress; progress._QUIET_SECONDS = 0.0; "
        "from shardlint.cli.main import start; start()"
    )
    python = f"{shlex.quote(sys.executable)} -c {shlex.quote(impatient)}"
    ran = shell("verify fx.py --level compile", tmp_path, "2>/dev/full", python)
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True)
    assert "reading fx.py" in shell("verify fx.py --level compile --fresh", tmp_path, before=python).stderr


def test_a_terminal_that_goes_away_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress(stream) as told:
            told(0, 1, [{"task": "self_test"}])
            os.close(ours)
            told(1, 1, [])
        assert sys.stderr is None, "nor is it tried again at the end"
        null = os.open(os.devnull, os.O_WRONLY)  # what is left in it has to go somewhere
        os.dup2(null, theirs)
        os.close(null)


@pytest.mark.parametrize("code", [124, 137])
def test_a_program_may_exit_as_if_it_was_killed(tmp_path: Path, code: int) -> None:
    ran = shell(f"run --timeout 100 -- sh -c 'exit {code}'", tmp_path)
    assert ran.returncode == code
    assert "killed" not in ran.stderr and "Traceback" not in ran.stderr


def test_run_outlasts_its_working_directory(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    program = shlex.quote(f"{GONE}; raise SystemExit(5)")
    reports = f"--report {tmp_path}/r.json --report {tmp_path}/r.html --report lost.json"
    ran = shell(f"run {reports} -- {shlex.quote(sys.executable)} -c {program}", tmp_path / "here")
    assert (ran.returncode, "Traceback" in ran.stderr) == (5, False)
    assert "--report lost.json: No such file or directory" in ran.stderr
    assert json.loads((tmp_path / "r.json").read_text())["exit_code"] == 5
    assert "exited with 5" in (tmp_path / "r.html").read_text()


def test_verify_outlasts_its_working_directory(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    removes = FIXTURE.replace("    return", f"    {GONE}\n    return")
    (folder / "fx.py").write_text(removes)
    ran = shell(f"verify fx.py --level compile --report {tmp_path}/r.html --junit lost.xml", folder)
    assert ran.returncode == 2
    assert "1 passed" in ran.stdout and f"{folder}/fx.py:6 in total" in ran.stdout
    assert ran.stderr == "shardlint verify: lost.xml: cannot be written: No such file or directory\n"
    assert "fx:total" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("command", ["run -- true", "verify"])
def test_a_working_directory_that_is_gone_already_is_told(tmp_path: Path, command: str) -> None:
    (tmp_path / "here").mkdir()
    line = f"rmdir ../here; exec {SHARDLINT} {command}"
    ran = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path / "here", capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 2
    assert ran.stderr.endswith("the current folder was deleted; go to another one\n")
    assert len(ran.stderr.splitlines()) == 1


def test_results_are_printed_where_goldens_and_reports_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "fx.py").write_text(FIXTURE)
    (tmp_path / "fx.golden").write_text("a file where the folder of goldens has to be")
    name = "x" * 300
    ran = shell(f"verify fx.py --level compile --update --report {name} --junit j.xml", tmp_path)
    assert ran.returncode == 2
    assert "1 passed" in ran.stdout
    golden, report = ran.stderr.splitlines()
    assert golden.startswith("shardlint verify: fx.golden") and "the golden cannot be written" in golden
    assert report == f"shardlint verify: {name}: cannot be written: File name too long"
    assert ElementTree.parse(tmp_path / "j.xml").getroot().get("tests") == "1"


@pytest.mark.parametrize("junit", ["x", "./x", "link"])
def test_two_reports_go_to_two_files(tmp_path: Path, junit: str) -> None:
    (tmp_path / "fx.py").write_text(FIXTURE)
    (tmp_path / "link").symlink_to("x")
    ran = shell(f"verify fx.py --report x --junit {junit}", tmp_path)
    assert ran.returncode == 2
    assert f"--report and --junit are both {Path(junit)}; name two files" in ran.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "1e300", "0"])
@pytest.mark.parametrize("command", ["run -- true", "verify"])
def test_a_time_limit_is_a_number_of_seconds(tmp_path: Path, command: str, seconds: str) -> None:
    name, *rest = command.split()
    ran = shell(" ".join([name, "--timeout", seconds, *rest]), tmp_path)
    assert ran.returncode == 2
    assert "is not a time limit; write seconds, from 0.1 to 1,000,000" in ran.stderr


WAITS = """\
import os, signal, sys, time
worker = os.fork()
if not worker:
    time.sleep(1000)
asked = []
def told(number, frame):
    asked.append(number)
    # Not print: the handler may run while that still writes, which Python refuses.
    os.write(1, f"{signal.Signals(number).name} {os.waitpid(worker, os.WNOHANG)[0]}\\n".encode())
    if len(asked) == 2:
        sys.exit(5)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), told)
print("up", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_signals_for_the_program_reach_it_alone_each_time(tmp_path: Path, name: str) -> None:
    (tmp_path / "wait.py").write_text(WAITS)
    command = [*shlex.split(SHARDLINT), "run", "wait.py", name]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for _ in range(2):
            process.send_signal(getattr(signal, name))
            assert process.stdout.readline() == f"{name} 0\n"
        assert process.wait(300) == 5


@pytest.mark.parametrize("name", ["SIGQUIT", "SIGUSR1"])
def test_signals_that_end_a_program_leave_nothing_running(tmp_path: Path, name: str) -> None:
    (tmp_path / "wait.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)\n")
    command = [*shlex.split(SHARDLINT), "run", "wait.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        program = int(process.stdout.readline())
        process.send_signal(getattr(signal, name))
        assert process.wait(300) == 128 + getattr(signal, name)
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)
