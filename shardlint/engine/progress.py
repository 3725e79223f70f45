"""How far a run is, said on a terminal once it takes longer than a second. In a pipe nothing is said."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from shardlint.source.streams import is_terminal

One = TypeVar("One")
_SILENT = 1.0
_AGAIN = 0.1
_SLOW = 2.0


class Meter:
    """Says so much of so many on standard error. Only who runs the command line turns it on."""

    def __init__(self) -> None:
        self.since: float | None = None
        self._said = 0.0
        self._width = 0

    def start_meter(self) -> None:
        """Begin, if somebody looks at standard error."""
        if is_terminal(sys.stderr):
            self.since = time.monotonic()

    def stop_meter(self) -> None:
        """Say nothing more, and leave the line empty."""
        self._clear_line()
        self.since = None

    def show_progress(self, done: int, of: int) -> None:
        """So many files are done."""
        now = time.monotonic()
        if self.since is None or now - self.since < _SILENT or now - self._said < _AGAIN:
            return
        self._said = now
        self.show_text(f"checked {done} of {of} files")

    def show_text(self, text: str) -> None:
        """Show a text in place of the last one."""
        self._write_text(f"\r{text}{' ' * (self._width - len(text))}")
        self._width = len(text)

    def _clear_line(self) -> None:
        if self._width:
            self._write_text(f"\r{' ' * self._width}\r")
            self._width = 0

    def _write_text(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self.since, self._width = None, 0


meter = Meter()


def report_progress(each: Iterable[One], of: int) -> Iterator[One]:
    """The same, saying how far it is."""
    if meter.since is None:
        yield from each
        return
    for done, one in enumerate(each, 1):
        meter.show_progress(done, of)
        yield one


@contextmanager
def announce_slow(text: str) -> Iterator[None]:
    """While the block runs, and longer than two seconds, show a text on the terminal. In a pipe nothing is shown.

    The block must not fork: a thread waits.
    """
    if not is_terminal(sys.stderr):
        yield
        return
    announcer = Meter()
    timer = threading.Timer(_SLOW, announcer.show_text, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        announcer.stop_meter()
