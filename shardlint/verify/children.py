"""Starting the processes that programs run in, speaking with them, and ending them. No jax."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from typing import IO, Any, TypeGuard

from shardlint.verify import containment
from shardlint.verify.boot import BOOT, PACKAGE
from shardlint.verify.cache import KEY_VARIABLE
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.outcome import Job

_START_SECONDS = 300.0


def start_child(
    python: str, module: str, arguments: list[str], errors: Any, wire: Any = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start `python` on a module of `inside`, with `wire` as its standard input and output and `errors` as its
    standard error. Raises `CannotRun` where it cannot be started.
    """
    command = [python, "-c", BOOT.format(module=module), PACKAGE, *arguments]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONUTF8": "1"}
    environment.pop(KEY_VARIABLE, None)
    try:
        return subprocess.Popen(
            command,
            stdin=wire,
            stdout=wire,
            stderr=errors,
            env=environment,
            # So that Ctrl-C reaches the command alone, which then ends its children.
            start_new_session=True,
        )
    except OSError as error:
        raise CannotRun(f"cannot start {python}: {error}") from error


def read_greeting(python: str, process: subprocess.Popen[bytes], errors: IO[bytes]) -> dict[str, Any]:
    """Return the first message of a process started from `python`: its releases. Raises `CannotRun` if it sends
    anything else. `errors` is the file its standard error goes to.
    """
    alarm = threading.Timer(_START_SECONDS, kill_child, [process])
    alarm.daemon = True
    alarm.start()
    line, told = b"", None
    try:
        line = process.stdout.readline(65536) if process.stdout else b""
        with contextlib.suppress(ValueError):
            told = json.loads(line)
    finally:
        alarm.cancel()
        if not _is_greeting(told):
            kill_child(process)
            process.wait()
    if not _is_greeting(told):
        wrote = f" but wrote {line[:200].decode('utf-8', 'replace')!r} first" if line else ""
        raise CannotRun(f"{python} did not start the verifier{wrote}{last_errors(errors)}")
    return dict(told)


def _is_greeting(greeting: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(greeting, dict) and isinstance(greeting.get("releases"), dict) and "python" in greeting


def keep_going(pid: int) -> None:
    """Continue a process whenever a program has stopped it, until it ends."""
    with contextlib.suppress(OSError):
        while (state := os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)) is not None:
            if state.si_code != os.CLD_STOPPED:
                return
            os.kill(pid, signal.SIGCONT)


def give_jobs(process: subprocess.Popen[bytes], *jobs: Job) -> None:
    """Write jobs, each as a line of JSON, to a process that reads them."""
    assert process.stdin is not None
    # A process that died has its reader to tell of it.
    with contextlib.suppress(OSError, ValueError):
        for job in jobs:
            process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()


def write_reply(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Write an answer. Raises `OSError` where the process has ended."""
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def received_data(process: subprocess.Popen[bytes]) -> bytes:
    """Return the next data from a process; empty if it has ended."""
    try:
        data: bytes = process.stdout.read1(65536)  # type: ignore[union-attr]  # of a socket, which has it
        return data
    except OSError:
        return b""


def kill_child(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, its group and whatever it started."""
    containment.end_below(process.pid)
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def last_errors(errors: IO[bytes] | None) -> str:
    """The end of what a process wrote to standard error, to put behind a message."""
    if errors is None:
        return ""
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()[-8:]
    return ": " + "\n  ".join(lines) if lines else ""
