"""Running commands: wall time, processor time, and the memory of one process and of all that it starts."""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
# Reading the memory of a large process costs it time: at most a tenth of the time is spent on that.
_LEAST_PAUSE, _PAUSE_PER_READING = 0.002, 9.0


class TooLong(Exception):
    """A command was ended because it took longer than allowed."""


@dataclass(frozen=True)
class Run:
    """One run of a command."""

    wall: float
    cpu: float
    largest: int | None
    """Peak memory of the largest process, in bytes; None where it is less than that of the process that times."""
    tree: int | None
    """Peak memory of all its processes together, in bytes, if sampled: shared pages are counted once."""
    code: int = 0
    """What it ended with."""

    @property
    def peak_memory(self) -> int:
        """The larger of the two: a sample can miss a peak, and one process does not tell of the others."""
        return max(self.largest or 0, self.tree or 0)


@dataclass
class Command:
    """A command, what belongs around it, and its runs."""

    what: str
    arguments: Sequence[str]
    codes: tuple[int, ...] = (0, 1)
    scale: float = 1.0
    """Times are multiplied by this: the command was given a part of the corpus."""
    variables: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None
    runs: list[Run] = field(default_factory=list)

    def run_once(self, work: Path, sample: bool = False) -> Run:
        """Run it once, with what comes before and after, which is not timed."""
        try:
            if self.before is not None:
                self.before()
            return run_command(self.what, self.arguments, work, self.codes, self.variables, sample)
        finally:
            if self.after is not None:
                self.after()

    @property
    def timed_runs(self) -> list[Run]:
        """The runs that were not sampled."""
        return [run for run in self.runs if run.tree is None]

    @property
    def median_seconds(self) -> float:
        """Median wall time, scaled."""
        return statistics.median(run.wall for run in self.timed_runs) * self.scale

    @property
    def cpu_seconds(self) -> float:
        """Median processor time, scaled."""
        return statistics.median(run.cpu for run in self.timed_runs) * self.scale

    @property
    def largest_process_memory(self) -> int | None:
        """Most memory that one of its processes had, in bytes; None where that cannot be told."""
        return max((run.largest for run in self.runs if run.largest is not None), default=None)

    @property
    def tree_memory(self) -> int | None:
        """Most memory that its processes had together, in bytes; None where the system does not tell."""
        return max((run.tree for run in self.runs if run.tree is not None), default=None)

    @property
    def peak_memory(self) -> int:
        """The larger of the two, over all runs."""
        return max(run.peak_memory for run in self.runs)


def run_command(
    what: str,
    arguments: Sequence[str],
    work: Path,
    codes: tuple[int, ...] = (0, 1),
    variables: Mapping[str, str] | None = None,
    sample: bool = False,
    limit: float | None = None,
) -> Run:
    """Run a command once in `work`. Raises `TooLong`; any other exit code than `codes` ends the benchmark."""
    # An empty value lets Python keep its compiled modules, as it does for users; some machines set it.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(variables or {})}
    said = work / "output.txt"
    with said.open("wb") as output:
        start = time.perf_counter()
        child = subprocess.Popen(
            arguments,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # to find, and to end, all that it starts
        )
        sampler = _Sampler(child.pid) if sample else None
        ended = threading.Event()
        late = threading.Timer(limit or 0, _kill_process_group, (child.pid, ended))
        if limit is not None:
            late.start()
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:
            _kill_process_group(child.pid, ended)
            raise
        finally:
            wall = time.perf_counter() - start
            late.cancel()
            tree = sampler.stop_sampling() if sampler is not None else None
    child.returncode = os.waitstatus_to_exitcode(status)
    if ended.is_set():
        raise TooLong(what)
    # Some end with 1 both for findings and for an exception.
    if child.returncode not in codes or _has_traceback(said):
        tail = said.read_bytes()[-2000:].decode("utf-8", "replace")
        raise SystemExit(f"{what} ended with {child.returncode}:\n{tail}")
    # A child starts as a copy of this process, and the system counts that as its own.
    here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest = used.ru_maxrss * _UNIT if used.ru_maxrss > here else None
    return Run(wall, used.ru_utime + used.ru_stime, largest, tree, child.returncode)


def _has_traceback(said: Path) -> bool:
    with said.open("rb") as lines:
        return any(b"Traceback (most recent call last)" in line for line in lines)


def end_when_told() -> None:
    """Have SIGTERM end the benchmark as Ctrl-C does: what it runs is ended too, and what it changed is put back."""

    def end_process(*_: object) -> None:
        raise SystemExit("told to end")

    signal.signal(signal.SIGTERM, end_process)


def _kill_process_group(pid: int, ended: threading.Event) -> None:
    ended.set()
    os.killpg(pid, signal.SIGKILL)


class _Sampler:
    """Reads the memory of a process and its descendants until told to stop; 0 where there is no /proc."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch_memory, daemon=True)
        self._thread.start()

    def stop_sampling(self) -> int:
        """The peak, in bytes."""
        self._stop.set()
        self._thread.join()
        return self._peak

    def _watch_memory(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            start = time.perf_counter()
            self._peak = max(
                self._peak, sum(_proportional_memory(pid) for pid in _session_processes(self._pid))
            )
            pause = max(_LEAST_PAUSE, (time.perf_counter() - start) * _PAUSE_PER_READING)


def _session_processes(pid: int) -> list[int]:
    """The processes of its session, itself included: `run` gives each command one of its own."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[3]) == pid:
            found.append(int(entry.parent.name))
    return found


def _proportional_memory(pid: int) -> int:
    """Its share of the pages it holds: those shared with others are divided among them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
