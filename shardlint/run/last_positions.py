"""Where the processes of a program stood when its time was up."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from shardlint.verify.facts import Line
from shardlint.verify.inside import stacks

_MOST = 2**18
_WAIT = 0.5
# One that programs have no use for; theirs are left to them. A system without such a signal tells no stacks.
_ASKED = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else getattr(signal, "SIGINFO", None)


def stack_environment(folder: Path) -> dict[str, str]:
    """Return the environment that makes each Python process of a program write its stack into `folder` on request."""
    return (
        {}
        if _ASKED is None
        else {"SHARDLINT_RUN_STACKS": str(folder), "SHARDLINT_RUN_ASKED": str(int(_ASKED))}
    )


def request_stacks(folder: Path, group: int) -> None:
    """Ask the Python processes of a group where they stand, and wait until they have said so, half a second at most."""
    if _ASKED is None:
        return
    files = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            # Another may have the number of one that has ended.
            if os.getpgid(int(file.name)) == group:
                os.kill(int(file.name), _ASKED)
                files.append(file)
    until, before = time.monotonic() + _WAIT, [0]
    while files and time.monotonic() < until:
        sizes = [file.stat().st_size for file in files]
        if all(sizes) and sizes == before:
            return
        before = sizes
        time.sleep(0.03)


def describe_stopped(folder: Path, first: int) -> tuple[str, str]:
    """The user's line at which the program stood, `train.py:12 in step`, and its stack as a sentence; "" where no
    process of it wrote one.

    Process `first` counts, or where that is no Python, the first of those it started that stood in the user's code.
    """
    dump = _stack_dump(folder, first)
    if not dump:
        return "", ""
    lines = "".join(f"\n  {frame}" for frame in stacks.shown_frames(dump))
    return stacks.users_line(dump), f"Python stack, innermost first:{lines}"


def stopped_line(folder: Path, first: int) -> Line:
    """That line by itself, with the whole path of its file."""
    place = stacks.users_place(_stack_dump(folder, first))
    return Line(*place) if place is not None else Line()


def _stack_dump(folder: Path, first: int) -> str:
    files = sorted(folder.iterdir(), key=lambda file: (file.name != str(first), int(file.name)))
    dumps = [file.read_bytes()[:_MOST].decode("utf-8", "replace") for file in files]
    dumps = [dump for dump in dumps if stacks.shown_frames(dump)]
    return next((dump for dump in dumps if stacks.users_line(dump)), dumps[0]) if dumps else ""
