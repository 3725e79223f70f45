"""One thread for all that asks the program: checks that are put off while one types, and questions in between."""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import field
from typing import Any, TypeVar

from shardlint.source.lazy import complete_classes, dataclass

Answer = TypeVar("Answer")
# How long after an edit a check waits for another, in seconds: as long as the last check took, within these.
_SHORTEST, _LONGEST = 0.003, 0.005
_PAUSE = 0.5
_IDLE = 5.0
_CHECKS = 20
# A sum of a thousand terms is a thousand deep.
_STACK = 256_000_000


class Stopped(BaseException):
    """A check was given up: the text is no longer what it looks at, or something else is to be done first."""


@dataclass
class _Job:
    answer: Callable[[], Any]
    alone: bool
    future: Future[Any] = field(default_factory=Future)
    begun: bool = False


class Worker:
    """Runs `check` some time after it was asked for, and jobs before it, or in the middle of it."""

    def __init__(
        self, check: Callable[[], None], failed: Callable[[Exception], None], idle: Callable[[], None]
    ) -> None:
        self._check, self._failed, self._idle = check, failed, idle
        self._took = _LONGEST
        self._quiet = True
        """Whether nothing was checked since `idle` was called."""
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Condition()
        self._due: float | None = None
        self._stop = self._ended = self._busy = False
        self._checks = 0
        complete_classes()
        before = threading.stack_size(_STACK)
        self._thread = threading.Thread(target=self._run_jobs, name="shardlint", daemon=True)
        self._thread.start()
        threading.stack_size(before)

    def check_later(self, give_up: bool) -> None:
        """Check soon. `give_up` says that the check that is running, if any, looks at what is no more."""
        with self._wake:
            self._due = time.monotonic() + self._took
            self._stop = self._stop or give_up
            self._wake.notify()

    def run_job(self, answer: Callable[[], Answer], alone: bool = False) -> Future[Answer]:
        """Run a job before other things; one that must be `alone` makes a running check begin again after it."""
        job = _Job(answer, alone)
        with self._wake:
            self._jobs.append(job)
            self._stop = self._stop or alone
            self._wake.notify()
        return job.future

    def run_waiting_jobs(self) -> None:
        """In the middle of a check: do the jobs that wait. Raises `Stopped`."""
        while not self._stop and not self._ended and self._jobs and not self._busy:
            self._busy = True
            try:
                self._do_job(self._jobs.popleft())
            finally:
                self._busy = False
        if self._stop or self._ended:
            raise Stopped

    def end_thread(self) -> None:
        """End the thread, in the middle of a check too."""
        with self._wake:
            self._ended = True
            self._wake.notify()

    def _run_jobs(self) -> None:
        while not self._ended:
            with self._wake:
                while not self._ended and not self._jobs and not self._is_due():
                    wait = self._idle_wait() if self._due is None else self._due - time.monotonic()
                    if not self._wake.wait(max(0.0, wait)) and self._due is None:
                        self._rest_or_tidy()
                job = self._jobs.popleft() if self._jobs and not self._ended else None
                self._stop = False
            if job is not None:
                self._busy = True
                self._do_job(job)
                self._busy = False
            elif not self._ended:
                self._run_check()

    def _idle_wait(self) -> float:
        return _IDLE if self._quiet else _PAUSE

    def _rest_or_tidy(self) -> None:
        """Nobody typed for a while, and then for longer."""
        if not self._quiet:
            self._quiet = True
            try:
                self._idle()
            except Exception as error:  # the thread must go on
                self._failed(error)
        elif self._checks >= _CHECKS:
            self._collect_garbage()

    def _is_due(self) -> bool:
        return self._due is not None and time.monotonic() >= self._due

    def _run_check(self) -> None:
        self._due = None
        self._checks += 1
        self._quiet = False
        began = time.monotonic()
        try:
            self._check()
            self._took = min(max(time.monotonic() - began, _SHORTEST), _LONGEST)
        except Stopped:
            if self._due is None:
                self._due = time.monotonic()
        except Exception as error:  # the thread must go on
            self._failed(error)

    def _do_job(self, job: _Job) -> None:
        if not job.begun and not job.future.set_running_or_notify_cancel():
            return
        job.begun = True
        try:
            job.future.set_result(job.answer())
        except (
            Stopped
        ):  # it needs what the check that is running does not have, or there is a newer text: once more
            with self._wake:
                self._jobs.appendleft(job)
                self._stop = True
        except Exception as error:
            job.future.set_exception(error)

    def _collect_garbage(self) -> None:
        """Nobody types: collect what knows itself. During checks no collector runs, which is half of their time."""
        self._checks = 0
        gc.collect()
        gc.freeze()
