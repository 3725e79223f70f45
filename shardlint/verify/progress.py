"""Progress output on standard error, and the summary at the end. On a terminal one line is updated in place; elsewhere
a new line is printed now and then.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, TextIO

import click

from shardlint.output.printable import make_printable
from shardlint.source.streams import ignoring_write_errors, is_terminal
from shardlint.verify.spec import sizes_text

_QUIET_SECONDS = 30.0


def tell_progress(text: str, colour: bool = False) -> bool:
    """Print on standard error; whether it could be printed, where there is somebody to read it."""
    with ignoring_write_errors():
        click.echo(text, err=True, color=colour)
        return True
    return False


class Progress:
    """Given to `Runner.progress`; a context manager, which clears up.

    Writes nothing to what is no terminal before 30 s have passed, and then a line at most every 30 s: logs
    of CI show that something goes on.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        self.live = is_terminal(stream)
        self.told = time.monotonic()

    def __call__(self, done: int, total: int, running: Sequence[Mapping[str, Any]]) -> None:
        """Tell of `done` jobs of `total` and those that run."""
        now = time.monotonic()
        text = make_printable(f"{done} of {total} done" + "".join(f"; {_job_text(job)}" for job in running[:1]))
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self._write_text("\r\x1b[K" + (text[:width] if running else ""))
        elif now - self.told >= _QUIET_SECONDS and running:
            self.told = now
            self._write_text(f"shardlint verify: {text}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:  # nothing of it is left on the terminal
            self._write_text("\r\x1b[K")

    def _write_text(self, text: str) -> None:
        if self.stream is not None:
            with ignoring_write_errors():
                self.stream.write(text)
                self.stream.flush()
                return
            self.stream = None


def _job_text(job: Mapping[str, Any]) -> str:
    match job["task"]:
        case "self_test":
            return "self-test"
        case "collect":
            return f"reading {job['file']}"
        case "proof":
            return f"{job['program']['code']}, its {job['program']['role']} program"
        case "alone":
            return f"{job['label']} on one device"
    levels = f", {job['levels'][-1]}" if job.get("levels") else ""
    return f"{job['label']} on {sizes_text(job['mesh'])}{levels}"
