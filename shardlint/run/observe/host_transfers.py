"""How often arrays that lie split are brought to the host at a line, and how often batches are placed."""

from __future__ import annotations

import atexit
from collections import Counter
from typing import Any

from . import event_sink
from .event_sink import silence_errors, write_event

_TIMES = 3
_MOST = 400
_fetches: dict[tuple[Any, ...], dict[str, Any]] = {}
_placed: Counter[tuple[Any, ...]] = Counter()


def install(_: Any) -> None:
    """Tell at the end of the program."""
    atexit.register(_write_fetched)


def note_fetched(lines: list[Any], one: Any, spec: str, size: int) -> None:
    """An array of several devices was brought to the host."""
    if event_sink.still:
        return
    key = (tuple(lines[0]), tuple(one.shape), str(one.dtype))
    if key in _fetches:
        _fetches[key]["times"] += 1
    elif len(_fetches) < _MOST:
        _fetches[key] = {"times": 1, "lines": lines, "spec": spec, "bytes": size}


def note_placed(lines: list[Any]) -> None:
    """Arrays were placed on several devices."""
    key = tuple(map(tuple, lines[:2]))
    if key and not event_sink.still and (len(_placed) < _MOST or key in _placed):
        _placed[key] += 1


@silence_errors
def _write_fetched() -> None:
    steps = max(_placed.values(), default=0)
    for lines, times in _placed.items():
        if times > 1:
            write_event("placed-times", lines=lines, times=times)
    for (_, shape, dtype), one in _fetches.items():
        if one["times"] >= _TIMES and steps >= _TIMES:
            write_event("fetched", shape=list(shape), dtype=dtype, steps=steps, **one)
