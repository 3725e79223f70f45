"""Checking with several processes, where there are files enough for each."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlint.config.folders import ScopeKey
    from shardlint.engine.one_file import Checker
    from shardlint.engine.results import Outcome
    from shardlint.model.project import Answers
    from shardlint.syntax.parts import Part

# Below this a second process reads and links again more than it saves.
_FILES = 400
_MOST = 8
# Neighbours are checked by one process, which has linked what they share; several turns each even out the work.
_TURNS = 3
# Of a project that is shared out, one file of so many is checked before there are other processes: what it needs of the
# project is then there for all of them, instead of once in each.
_FIRST = 8

_checker: Checker | None = None


def worth_it(files: Sized) -> bool:
    """Return whether more processes pay off. They do only if they can be forked, because others start with an empty
    cache.
    """
    return len(files) >= _FILES and _count_processors() > 1 and sys.platform == "linux"


def side_by_side(files: Sequence[Path], checker: Checker) -> Iterator[Outcome]:
    """Yield the outcome of each file, in order. The work of a lost process is repeated in this one."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from shardlint.engine.progress import meter, report_progress

    checker.targets_for(Path(os.path.realpath(files[0])))  # loads the rules once for all
    count = min(_count_processors(), _MOST, max(1, 2 * len(files) // _FILES))
    first, parts = _split_work(files, checker, count)
    found = dict(zip(first, report_progress(map(checker.check_file, first), len(files)), strict=True))
    others = multiprocessing.active_children()
    try:
        with ProcessPoolExecutor(
            count, multiprocessing.get_context("fork"), initializer=_begin_watched_worker, initargs=(checker,)
        ) as pool:
            for outcomes, answers, cut in pool.map(_check_part, parts):
                checker.learn_answers(answers, cut)
                found.update((outcome.path, outcome) for outcome in outcomes)
                meter.show_progress(len(found), len(files))
    except (OSError, RuntimeError):  # one was lost, or the system gives no more of them
        for process in multiprocessing.active_children():
            if process not in others:  # nobody would give it anything to do, or end it
                process.kill()
        _begin_worker(checker)
        left = [file for file in files if file not in found]
        found.update((outcome.path, outcome) for outcome in _check_part((left, True))[0])
    yield from (found[file] for file in files)


def _split_work(
    files: Sequence[Path], checker: Checker, count: int
) -> tuple[list[Path], list[tuple[Sequence[Path], bool]]]:
    """The files to begin with, and the others in parts: a project each, or several of one that is most of the work.

    The largest come first. With each part, whether it is a whole project, of which nothing need be kept afterwards.
    """
    projects: dict[str, list[Path]] = {}
    sizes: dict[str, int] = {}
    for file in files:
        root = checker.root_for(file)
        projects.setdefault(root, []).append(file)
        sizes[root] = sizes.get(root, 0) + _file_size(file)
    most = sum(sizes.values()) / (count * 1.5)
    first: list[Path] = []
    parts: list[tuple[Sequence[Path], bool]] = []
    for root in sorted(projects, key=lambda root: -sizes[root]):
        inside = projects[root]
        if sizes[root] <= most:
            parts.append((inside, True))
            continue
        first += inside[::_FIRST]
        left = [file for index, file in enumerate(inside) if index % _FIRST]
        step = max(1, -(-len(left) // (count * _TURNS)))
        parts += [(left[start : start + step], False) for start in range(0, len(left), step)]
    return first, parts


def _file_size(file: Path) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _begin_watched_worker(checker: Checker) -> None:
    import threading

    threading.Thread(target=_end_with_parent, daemon=True).start()
    _begin_worker(checker)


def _end_with_parent() -> None:
    """Wait until the process that gives out the work is no more, however it ended, and end too."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _begin_worker(checker: Checker) -> None:
    global _checker
    gc.disable()
    _checker = checker


def _check_part(
    part: tuple[Sequence[Path], bool],
) -> tuple[list[Outcome], dict[ScopeKey, Answers], dict[str, tuple[Part, ...]]]:
    assert _checker is not None
    files, whole = part
    done = [_checker.check_file(file) for file in files], _checker.search_answers(), _checker.parsed_parts()
    if whole:
        _checker.let_go()
    return done


def _count_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
