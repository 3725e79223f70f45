"""Where a process stands, from what `faulthandler` writes of it when it crashes or is asked. No jax."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import tempfile
import time
from pathlib import Path

from shardlint.verify.inside import load
from shardlint.verify.working_directory import shown_path

_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
_ASKED = getattr(signal, "SIGUSR1", None)
_MOST = 2**18
_SHOWN = 12
_OURS = str(Path(__file__).parent)
_WAIT = 1.0


def new_file() -> int:
    """A file without a name that stacks go to; its descriptor is the caller's to close."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def dump_to(file: int) -> None:
    """Have the stacks of all threads of this process written to a file when it crashes, and when it is asked."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        faulthandler.enable(file, all_threads=True)
        if _ASKED is not None:
            faulthandler.register(_ASKED, file, all_threads=True)


def ask_for_stack(process: int, file: int) -> None:
    """Ask a process that does not end where it stands, and wait until it has written so, for a second at most."""
    if _ASKED is None:
        return
    with contextlib.suppress(OSError):
        os.kill(process, signal.SIGCONT)
        os.kill(process, _ASKED)
    until = time.monotonic() + _WAIT
    before = -1
    while time.monotonic() < until:
        size = os.fstat(file).st_size
        if size and size == before:
            return
        before = size
        time.sleep(0.02)


def read_stacks(file: int) -> str:
    """Return the text of a file of stacks."""
    size = min(os.fstat(file).st_size, _MOST)
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, size).decode("utf-8", "replace")


def users_line(dump: str) -> str:
    """The innermost line of the user's own code, `file.py:12 in step`; "" where there is none."""
    place = users_place(dump)
    return f"{shown_path(place[0])}:{place[1]} in {place[2]}" if place is not None else ""


def users_place(dump: str) -> tuple[str, int, str] | None:
    """Its file, line and function.

    The thread that crashed counts if it has such a line, then the main one (written last), then the others.
    """
    threads = list(reversed(dump.split("\n\n")))
    crashed = [thread for thread in threads if "Current thread" in thread and "Fatal" in dump]
    for thread in crashed + threads:
        for file, line, name in _FRAME.findall(thread):
            if load.is_theirs(file):
                return file, int(line), name
    return None


def shown_frames(dump: str) -> list[str]:
    """The frames of the thread that counts down to the verifier's own, innermost first, as lines for a report."""
    threads = dump.strip().split("\n\n")
    crashed = [thread for thread in threads if "Fatal" in dump and "Current thread" in thread]
    lines: list[str] = []
    for file, line, name in _FRAME.findall((crashed or threads)[-1 if not crashed else 0]):
        if file.startswith(_OURS) or len(lines) == _SHOWN:
            break
        lines.append(f"{shown_path(file)}:{line} in {name}")
    return lines
