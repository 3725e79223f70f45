"""Checking with several processes, where there are files enough for each."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from shardlint.check import Checker, Options, Outcome, outcome

# Below this a second process reads and links again more than it saves.
_FILES = 400
_MOST = 8
# Neighbours are checked by one process, which has linked what they share; several turns each even out the work.
_TURNS = 3

_checker: Checker | None = None


def worth_it(files: Sequence[Path]) -> bool:
    """Whether more processes pay. Only where they can be forked: elsewhere each would begin with an empty memory."""
    return len(files) >= _FILES and _processors() > 1 and sys.platform == "linux"


def side_by_side(files: Sequence[Path], options: Options) -> Iterator[Outcome]:
    """What comes of each file, in order. What a lost process had to do is done again in this one."""
    count = min(_processors(), _MOST, max(1, 2 * len(files) // _FILES))
    size = -(-len(files) // (count * _TURNS))
    parts = [files[start : start + size] for start in range(0, len(files), size)]
    done = 0
    try:
        with ProcessPoolExecutor(
            count, multiprocessing.get_context("fork"), initializer=_begin, initargs=(options,)
        ) as pool:
            for outcomes in pool.map(_part, parts):
                yield from outcomes
                done += 1
    except BrokenProcessPool:
        _begin(options)
        for part in parts[done:]:
            yield from _part(part)


def _begin(options: Options) -> None:
    global _checker
    gc.disable()
    _checker = Checker(options)


def _part(files: Sequence[Path]) -> list[Outcome]:
    assert _checker is not None
    return [outcome(_checker, file) for file in files]


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
