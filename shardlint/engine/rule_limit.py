"""A limit of time for each rule at each site: a rule that does not come to an end is stopped.

The limit is kept by a signal, so only in the main thread of a process and on POSIX. Code in C that never returns to
Python is not stopped by it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType, TracebackType

SECONDS = 30.0
"""A rule takes milliseconds at a site. Nothing that ends takes so long, on a slow machine neither."""
_TICK = 1.0
_TRIES = 5


class TookTooLong(BaseException):
    """A rule was stopped at its limit. No `Exception`, which rules catch."""


class _Limit:
    running: Callable[[], str] | None = None
    """The rule and place that the limit is for, for people; None between two."""
    until = 0.0
    """When the limit is reached, by `monotonic`."""
    tries = 0


def _stop_rule(number: int, frame: FrameType | None) -> None:
    if _Limit.running is None or monotonic() < _Limit.until:
        return
    _Limit.tries += 1
    if _Limit.tries > _TRIES:  # it catches everything
        said = f"shardlint: not complete: {_Limit.running()} takes too long and does not stop\n"
        os.write(2, said.encode("utf-8", "backslashreplace"))
        os._exit(2)
    raise TookTooLong


@contextmanager
def keep_limits() -> Iterator[None]:
    """Have `limit_time` keep its limits meanwhile. One timer serves all rules: setting one for each takes longer than
    many rules.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _stop_rule)
    signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class limit_time:
    """Raise `TookTooLong` in what takes longer than the limit, if limits are kept; `running` names it in words."""

    __slots__ = ("running",)

    def __init__(self, running: Callable[[], str]) -> None:
        self.running = running

    def __enter__(self) -> None:
        _Limit.running, _Limit.tries, _Limit.until = self.running, 0, monotonic() + SECONDS

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _Limit.running = None
