"""Starts a program several times, as the processes of one jax program, and waits for all of them."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from shardlint.run import last_positions, launch
from shardlint.run.launches import read_launches
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.facts import Line

_GRACE = 4.0
_STUCK = 8.0
_BEHIND = 0.4
_IDLE = 60.0
_LOOKED = 2.0
_BUSY = 0.05
_FRAMES = 3


@dataclass
class Process:
    """One of the processes: its number, where it writes, how it ended, and where it stood if it was killed."""

    number: int
    folder: Path
    raised: Path
    stacks: Path
    child: subprocess.Popen[bytes]
    killed: bool = False
    line: str = ""
    stack: str = ""
    at: Line = field(default_factory=Line)
    """The user's line at which it stood."""

    @property
    def exit_code(self) -> int:
        """Its exit code, as a shell has it."""
        code = self.child.returncode
        return code if code is not None and code >= 0 else 128 - (code or 0)

    def end_message(self) -> dict[str, Any] | None:
        """Return the message of the process at its end; None before."""
        for file in (self.folder / "observed").glob("*.jsonl"):
            for text in file.read_text("utf-8", "replace").splitlines():
                if '"kind": "ended"' in text:
                    told: dict[str, Any] = json.loads(text)
                    return told
        return None

    def started_bytes(self) -> int:
        """Bytes of what it said of the programs it started: that it goes on."""
        return sum(file.stat().st_size for file in (self.folder / "launches").glob("*.jsonl"))


@dataclass
class FinishedProcesses:
    """All processes, and why the run was ended before they were: `time`, `raised`, `stuck`, `idle` or nothing."""

    processes: list[Process]
    ended: launch.Ended
    why: str = ""
    idle: bool = False
    """Whether those that lived did nothing when they were ended."""


def run_processes(
    words: Sequence[str], given: Mapping[str, str], folder: Path, count: int, devices: int, told: bool,
    seconds: float | None, memory: int | None,
) -> FinishedProcesses:  # fmt: skip
    """Start the program `count` times and wait. When one has raised, or has ended while another waits for it in a
    program that it will never start, the others get a few seconds.
    """
    if os.name != "posix":
        raise CannotRun("--processes is not supported on this system")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    processes = []
    shown = _Output(count)
    try:
        for number in range(count):
            processes.append(_start_process(words, given, folder, number, count, devices, told, address, memory))
            shown.follow_process(number, processes[-1].child)
        why, idle = _wait_for_all(processes, None if seconds is None else began + seconds)
    finally:
        for one in processes:
            launch._send_signal(one.child, launch._KILL)
            one.child.wait()
            launch.remove_unread_dumps(one.folder, 0)
        shown.close_output()
    code = (
        launch.TIMED_OUT
        if why in ("time", "stuck", "idle")
        else next((one.exit_code for one in processes if one.exit_code), 0)
    )
    if why == "raised":
        code = next((one.exit_code for one in processes if one.exit_code and not one.killed), 1)
    notes = [f"killed at the time limit of {seconds:g} s"] if why == "time" else []
    if why == "time" and all(one.end_message() for one in processes):
        notes.append(
            "every process had finished its code and hung in the shutdown of jax: wait for the last results "
            "first (jax.block_until_ready)"
        )
    if why == "stuck":
        notes.append("killed: a process waited for one that had finished")
    if why == "idle":
        notes.append(f"killed: no process did anything for {_IDLE:g} s")
    notes += [_describe_stack(one) for one in processes if one.killed and one.stack]
    return FinishedProcesses(processes, launch.Ended(code, time.monotonic() - began, notes), why, idle)


def _start_process(
    words: Sequence[str], given: Mapping[str, str], folder: Path, number: int, count: int, devices: int,
    told: bool, address: str, memory: int | None,
) -> Process:  # fmt: skip
    own, raised, stacks = (folder / f"{name}{number}" for name in ("process", "raised", "stacks"))
    for path in (own, raised, stacks):
        path.mkdir()
    env = launch.run_environment(own, devices, told, dict(given)) | last_positions.stack_environment(stacks)
    env |= {
        "SHARDLINT_RUN_RAISED": str(raised),
        "SHARDLINT_RUN_PROCESS": str(number),
        "SHARDLINT_RUN_PROCESSES": str(count),
        "SHARDLINT_RUN_COORDINATOR": address,
        "PYTHONUNBUFFERED": "1",
    }
    values = {"process": str(number), "processes": str(count), "coordinator": address}
    words = [_fill_in(word, values) for word in words]
    try:
        child = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, preexec_fn=lambda: launch.prepare_process(memory, devices),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotRun(f"cannot start {shlex.join(words)}: {error}") from None
    return Process(number, own, raised, stacks, child)


def _fill_in(word: str, values: Mapping[str, str]) -> str:
    """A word of the command with what a program that takes its process as an argument must be told."""
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _wait_for_all(processes: Sequence[Process], end: float | None) -> tuple[str, bool]:
    """Wait for all; why they were killed, or nothing, and whether those that lived did nothing then."""
    failed: float | None = None
    load = _Load(processes)
    still, before = time.monotonic(), [-1]
    try:
        while any(one.child.poll() is None for one in processes):
            now = time.monotonic()
            said = [one.end_message() for one in processes]
            if failed is None and any(
                (one.child.poll() or 0) != 0 or (told and told["said"])
                for one, told in zip(processes, said, strict=True)
            ):
                failed = now
            sizes = [one.started_bytes() for one in processes]
            done = [
                told is not None or one.child.poll() is not None
                for one, told in zip(processes, said, strict=True)
            ]
            if sizes != before or not any(done) or all(done):
                still, before = now, sizes
            why = "time" if end is not None and now > end else ""
            why = why or ("raised" if failed is not None and now > failed + _GRACE else "")
            why = why or ("stuck" if now > still + _STUCK and _is_process_ahead(processes, done) else "")
            why = why or ("idle" if load.idle_seconds() > _IDLE else "")
            if why:
                idle = load.idle_seconds() > 2 * _LOOKED
                _stop_processes(processes)
                return why, idle
            time.sleep(0.1)
    except KeyboardInterrupt:
        _stop_processes(processes)
        return "time", False
    return "", False


class _Load:
    """How long the processes have used next to no processor. A system without /proc does not say."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        self._looked = self._busy = time.monotonic()
        self._used = self._current_load()

    def idle_seconds(self) -> float:
        """The seconds since one of them last did something."""
        now = time.monotonic()
        if now - self._looked >= _LOOKED:
            used = self._current_load()
            if used is None or self._used is None or abs(used - self._used) > _BUSY * (now - self._looked):
                self._busy = now
            self._looked, self._used = now, used
        return now - self._busy

    def _current_load(self) -> float | None:
        groups = {one.child.pid for one in self._processes if one.child.poll() is None}
        total = 0
        try:
            for place in Path("/proc").iterdir():
                if place.name.isdigit():
                    with contextlib.suppress(OSError):
                        # Behind the name, which may hold anything: state, parent, group ... and times.
                        told = (place / "stat").read_text().rpartition(")")[2].split()
                        if int(told[2]) in groups:
                            total += int(told[11]) + int(told[12])
            return total / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            return None


def _is_process_ahead(processes: Sequence[Process], done: Sequence[bool]) -> bool:
    """Return whether a process waits in a program that an ended process did not start."""
    counts = [len(read_launches(one.folder)) for one in processes]
    least = min(count for count, over in zip(counts, done, strict=True) if over)
    return any(count > least for count, over in zip(counts, done, strict=True) if not over)


def _stop_processes(processes: Sequence[Process]) -> None:
    """Ask those that live where they stand, then kill them, the one that joins them last: the others complain."""
    living = [one for one in processes if one.child.poll() is None]
    for one in living:
        last_positions.request_stacks(one.stacks, one.child.pid)
        one.line, one.stack = last_positions.describe_stopped(one.stacks, one.child.pid)
        one.at = last_positions.stopped_line(one.stacks, one.child.pid)
        one.killed = True
    for one in reversed(living):
        # jax catches SIGTERM.
        launch._send_signal(one.child, signal.SIGKILL)


def _describe_stack(process: Process) -> str:
    """Where a process was when it was killed: the user's line, and the innermost frames but for those that watch."""
    frames = [text.strip() for text in process.stack.splitlines()[1:] if "/shardlint/run/observe/" not in text]
    where = f"was at {process.line}" if process.line else "was in no line of the program"
    return f"process {process.number} {where}; innermost first: {', '.join(frames[:_FRAMES])}"


class _Output:
    """Merged output of the processes: a line common to all is printed once, others with the process index."""

    def __init__(self, count: int) -> None:
        self._lines: dict[str, list[deque[tuple[float, bytes]]]] = {
            name: [deque() for _ in range(count)] for name in ("stdout", "stderr")
        }
        self._read: queue.SimpleQueue[tuple[str, int, bytes]] = queue.SimpleQueue()
        self._readers: list[threading.Thread] = []
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write_output, daemon=True)
        self._writer.start()

    def follow_process(self, number: int, child: subprocess.Popen[bytes]) -> None:
        """Show what a process prints from now on."""
        for name, stream in (("stdout", child.stdout), ("stderr", child.stderr)):
            assert stream is not None
            reader = threading.Thread(target=self._take_output, args=(name, number, stream), daemon=True)
            reader.start()
            self._readers.append(reader)

    def close_output(self) -> None:
        """Show what is left."""
        for reader in self._readers:
            reader.join(2)
        self._over.set()
        self._writer.join(5)

    def _take_output(self, name: str, number: int, stream: IO[bytes]) -> None:
        for line in stream:
            self._read.put((name, number, line))

    def _write_output(self) -> None:
        while True:
            over = self._over.is_set()
            try:
                while True:
                    name, number, line = self._read.get(timeout=0.05)
                    self._lines[name][number].append((time.monotonic(), line))
                    self._show_lines(False)
            except queue.Empty:
                self._show_lines(over)
            if over:
                return

    def _show_lines(self, over: bool) -> None:
        for name, lines in self._lines.items():
            stream = getattr(sys, name)
            while any(lines):
                heads = [each[0] if each else None for each in lines]
                if all(head is not None and head[1] == (heads[0] or head)[1] for head in heads):
                    text, taken, prefix = (heads[0] or (0.0, b""))[1], range(len(lines)), ""
                else:
                    waiting = [(head[0], at) for at, head in enumerate(heads) if head is not None]
                    since, at = min(waiting)
                    if not over and None in heads and time.monotonic() - since < _BEHIND:
                        break
                    text, taken, prefix = lines[at][0][1], range(at, at + 1), f"[{at}] "
                for at in taken:
                    lines[at].popleft()
                stream.write(prefix + text.decode("utf-8", "replace").rstrip("\n") + "\n")
            stream.flush()
