"""Starts the program, waits for it within its limits, and keeps the dumps small while it runs."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.run import last_positions
from shardlint.run.dumps import is_wanted_file
from shardlint.verify import containment
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.inside.devices import limit_memory

_DEVICES = "--xla_force_host_platform_device_count="
# Text of every program at the partitioner, and a name for each that no other process can take.
FLAGS = (
    "--xla_dump_hlo_as_text",
    "--xla_dump_hlo_pass_re=spmd-partitioning",
    "--xla_dump_include_timestamp",
)
TIMED_OUT = 124
"""The exit code of a program killed at its time limit, as `timeout` has it."""

_GRACE = 2.0
_SWEEP = 2.0


@dataclass
class Ended:
    """How the program ended: its exit code (128 and the signal's number where one killed it), seconds, and
    what a reader of the report must know.
    """

    code: int
    seconds: float
    notes: list[str] = field(default_factory=list)


def command_line(words: Sequence[str]) -> list[str]:
    """The words to start: `train.py` and `-m module` run under this Python, as `python train.py` does."""
    first = words[0]
    if first == "-m" or (first.endswith(".py") and not shutil.which(first)):
        return [sys.executable, *words]
    return list(words)


def run_environment(folder: Path, devices: int, told: bool, given: dict[str, str]) -> dict[str, str]:
    """`given` with what the program needs for simulated devices and dumps into `folder`.

    `devices` is how many; unless the command was `told`, a number that XLA_FLAGS or
    JAX_NUM_CPU_DEVICES already has stays.
    """
    ours = list(FLAGS)
    theirs = given.get("XLA_FLAGS", "")
    env = dict(given)
    if told:
        ours.append(f"{_DEVICES}{devices}")
        if "JAX_NUM_CPU_DEVICES" in env:
            env["JAX_NUM_CPU_DEVICES"] = str(devices)
    elif _DEVICES not in theirs and "JAX_NUM_CPU_DEVICES" not in env:
        env["SHARDLINT_RUN_DEVICES"] = str(devices)
        theirs = f"{theirs} {_DEVICES}{devices}"
    env["SHARDLINT_RUN_FLAGS"] = " ".join(ours)
    env["SHARDLINT_RUN_FOLDER"] = str(folder)
    env["SHARDLINT_RUN_OBSERVE"] = str(Path(__file__).parent / "observe")
    env["XLA_FLAGS"] = " ".join([*theirs.split(), *ours, f"--xla_dump_to={folder / 'other'}"])
    env["JAX_PLATFORMS"] = "cpu"
    # What comes from a cache is not compiled, and leaves no dump.
    env["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    startup = str(Path(__file__).parent / "startup")
    env["PYTHONPATH"] = os.pathsep.join(part for part in (startup, given.get("PYTHONPATH", "")) if part)
    return env


@contextlib.contextmanager
def dump_folder(keep: Path | None) -> Iterator[Path]:
    """A folder for the dumps: `keep`, made if need be, or one that is gone at the end.

    Raises `CannotRun` for one that already holds something: its dumps would be taken for this run's.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="shardlint-run-", ignore_cleanup_errors=True) as made:
            yield Path(made).resolve()
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        empty = not any(keep.iterdir())
    except OSError as error:
        raise CannotRun(f"--keep-dumps {keep}: {error.strerror or error}") from None
    if not empty:
        raise CannotRun(f"--keep-dumps {keep}: the folder is not empty")
    yield keep.resolve()


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for what processes of the program put down, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="shardlint-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def run_program(
    words: Sequence[str],
    env: dict[str, str],
    folder: Path,
    seconds: float | None = None,
    memory: int | None = None,
    devices: int = 8,
) -> Ended:
    """Start the program in a process group of its own, with this process's input and output, and wait.

    `seconds` and `memory` (bytes a process, beyond what `devices` simulated devices reserve) are its limits.
    Signals this process gets are passed on. What is left of the group at the end is killed.
    Raises `CannotRun` where it cannot be started.
    """
    with scratch_folder() as stood_in:
        if seconds is not None:
            env = {**env, **last_positions.stack_environment(stood_in)}
        return _run_in_group(words, env, folder, seconds, memory, devices, stood_in)


def _run_in_group(
    words: Sequence[str],
    env: dict[str, str],
    folder: Path,
    seconds: float | None,
    memory: int | None,
    devices: int,
    stood_in: Path,
) -> Ended:
    options: dict[str, Any] = {"env": env}
    if memory is not None and os.name != "posix":
        raise CannotRun("--memory: this system has no memory limit")
    if os.name == "posix":
        options["start_new_session"] = True
        options["preexec_fn"] = lambda: prepare_process(memory, devices)
    else:
        options["creationflags"] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    began = time.monotonic()
    try:
        process = subprocess.Popen(words, **options)
    except subprocess.SubprocessError:
        raise CannotRun("--memory: this system refuses the limit (RLIMIT_AS)") from None
    except OSError as error:
        raise CannotRun(f"cannot start {shlex.join(words)}: {error.strerror or error}") from None
    with _forward_signals(process):
        end = None if seconds is None else began + seconds
        code, notes = _wait_for_exit(process, folder, end, lambda: last_positions.request_stacks(stood_in, process.pid))
    if code is None:
        code = TIMED_OUT
        line, stack = last_positions.describe_stopped(stood_in, process.pid)
        notes.insert(0, f"killed at the time limit of {seconds:g} s" + (f", at {line}" if line else ""))
        notes += [stack] if stack else []
    remove_unread_dumps(folder, 0)
    return Ended(code, time.monotonic() - began, notes)


def prepare_process(memory: int | None, devices: int) -> None:
    """Prepare a new process before it runs the program: signals and the memory limit."""
    containment.heed_signals()
    if memory is not None:
        limit_memory(memory, devices)


def _wait_for_exit(
    process: subprocess.Popen[bytes], folder: Path, end: float | None, ask: Callable[[], None]
) -> tuple[int | None, list[str]]:
    """Its exit code, None where it was killed at its time limit, just after `ask`, and what a reader must know."""
    swept = time.monotonic()
    over = False
    while process.poll() is None:
        now = time.monotonic()
        if end is not None and now > end:
            over = True
            ask()
            _send_signal(process, signal.SIGTERM)
            _wait_until(lambda: process.poll() is not None)
            _send_signal(process, _KILL)
            break
        if now - swept > _SWEEP:
            remove_unread_dumps(folder, _SWEEP)
            swept = now
        time.sleep(0.03)
    code = process.wait()
    notes = []
    if not _wait_until(lambda: not _group_lives(process)):
        _send_signal(process, _KILL)
        notes.append("processes that the program left running were killed")
    if over:
        return None, notes
    return (code if code >= 0 else 128 - code), notes


def _wait_until(done: Callable[[], bool]) -> bool:
    """Wait a short while for something to come true; whether it did."""
    end = time.monotonic() + _GRACE
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.03)
    return True


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    """Return whether anything is left of the group of a program that has ended."""
    if not hasattr(os, "killpg"):
        return False
    try:
        os.killpg(process.pid, 0)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Give the program the signals meant for it; the second that asks it to end kills it."""
    times = 0

    def pass_on(number: int, frame: Any) -> None:
        nonlocal times
        times += 1
        _send_signal(process, number if times == 1 else _KILL)

    def pass_to_it(number: int, frame: Any) -> None:
        # To it alone: its workers, which may not expect the signal, would die of it.
        process.send_signal(number)

    passed = dict.fromkeys(("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"), pass_on)
    passed |= dict.fromkeys(("SIGUSR1", "SIGUSR2"), pass_to_it)
    given = {getattr(signal, name): by for name, by in passed.items() if hasattr(signal, name)}
    try:
        old = {number: signal.signal(number, by) for number, by in given.items()}
    except ValueError:  # not the main thread: nobody interrupts that
        old = {}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def _send_signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif number == signal.SIGINT:
            process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", number))
        else:
            process.kill()


def remove_unread_dumps(folder: Path, older: float) -> None:
    """Throw away dumps nobody reads (object files, allocation tables), untouched for `older` seconds.

    They are nine tenths of what the compiler writes.
    """
    before = time.time() - older
    for place, _, names in os.walk(folder):
        for name in names:
            if not is_wanted_file(name):
                path = Path(place, name)
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime <= before:
                        path.unlink()


def environment_remarks(given: Mapping[str, str]) -> list[str]:
    """Return remarks on the environment settings that this run had to override."""
    theirs = [flag for flag in given.get("XLA_FLAGS", "").split() if flag.startswith("--xla_dump_")]
    return (
        [f"this run uses the dumps that XLA_FLAGS asks for ({' '.join(theirs)}): your folder stays empty"]
        if theirs
        else []
    )
