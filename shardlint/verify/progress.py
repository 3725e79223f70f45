"""How far a run is, on standard error: a line that changes on a terminal, now and then a new one elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, TextIO

from shardlint.plain import plain
from shardlint.verify.spec import sizes_text

_QUIET_SECONDS = 30.0


class Progress:
    """Given to `Runner.progress`; a context manager, which clears up.

    Writes nothing to what is no terminal before 30 s have passed, and then a line at most every 30 s: logs
    of CI show that something goes on.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.told = time.monotonic()

    def __call__(self, done: int, total: int, running: Sequence[Mapping[str, Any]]) -> None:
        """Tell of `done` jobs of `total` and those that run."""
        now = time.monotonic()
        text = plain(f"{done} of {total} done" + "".join(f"; {_job_text(job)}" for job in running[:1]))
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\x1b[K" + (text[:width] if running else ""))
        elif now - self.told >= _QUIET_SECONDS and running:
            self.told = now
            self.stream.write(f"shardlint verify: {text}\n")
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:  # nothing of it is left on the terminal
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def _job_text(job: Mapping[str, Any]) -> str:
    match job["task"]:
        case "self_test":
            return "self-test"
        case "collect":
            return f"reading {job['file']}"
        case "proof":
            return f"{job['program']['code']}, its {job['program']['role']} program"
    levels = f", {job['levels'][-1]}" if job.get("levels") else ""
    return f"{job['label']} on {sizes_text(job['mesh'])}{levels}"
