"""Where the time of a run went, for `check --profile`. Costs nothing worth measuring when nobody asks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from types import TracebackType


class Clock:
    """Seconds by what was being done. What is done inside something else is counted for itself alone."""

    def __init__(self) -> None:
        self.running = False
        self.seconds: dict[str, float] = {}
        self.times: Counter[str] = Counter()
        self._open: list[str] = []
        self._since = 0.0

    def start_clock(self) -> None:
        """Begin to count, from nothing."""
        self.running = True
        self.seconds.clear()
        self.times.clear()
        self._open = ["the rest"]
        self._since = time.perf_counter()

    def begin_task(self, what: str) -> None:
        """Something begins."""
        self._add_elapsed()
        self._open.append(what)
        self.times[what] += 1

    def end_task(self) -> None:
        """The last thing that began ends."""
        self._add_elapsed()
        self._open.pop()

    def _add_elapsed(self) -> None:
        now = time.perf_counter()
        what = self._open[-1]
        self.seconds[what] = self.seconds.get(what, 0.0) + now - self._since
        self._since = now

    def format_table(self) -> Iterator[str]:
        """Lines of text: what took how long, the longest first, and how often it was done."""
        self._add_elapsed()
        whole = sum(self.seconds.values())
        longest = sorted(self.seconds.items(), key=lambda one: -one[1])
        yield f"{'seconds':>9}  {'share':>6}  {'times':>8}"
        for what, seconds in longest:
            times = self.times[what]
            yield f"{seconds:9.3f}  {seconds / whole:6.1%}  {times or '':>8}  {what}"
        yield f"{whole:9.3f}  in all, by one process"


clock = Clock()


class timed:
    """Count what is done inside for a name."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        if clock.running:
            clock.begin_task(self.what)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if clock.running:
            clock.end_task()
