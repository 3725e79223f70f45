"""Running jobs in child processes that cannot hurt the command, whatever they do.

Nothing here imports jax. On Linux one zygote imports it once and forks a child a job. Elsewhere
each job is a fresh process: Windows has no fork, and on macOS the frameworks numpy and jax load do
not survive one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from shardlint.verify import children, messages
from shardlint.verify.cache import secret_key
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.environments import describe_other_environment
from shardlint.verify.job_attendance import Attendant
from shardlint.verify.outcome import Job, Outcome

# What a program may take unless told otherwise.
SECONDS, MEMORY = 120.0, "16GiB"
_END_SECONDS = 10.0
_OUTPUT_MAX = 16 * 2**20


class Runner:
    """Child processes of one interpreter, as a context manager.

    `seconds` of wall clock and `memory` bytes (None: no limit) bound each job; `at_once` jobs run
    side by side. What compilers answer is kept in the folder `cache` (None: nowhere). Entering raises
    `CannotRun` when the interpreter does not start or has no jax.
    """

    def __init__(
        self,
        python: str = sys.executable,
        seconds: float = 120.0,
        memory: int | None = None,
        at_once: int = 1,
        fork: bool = sys.platform == "linux",
        cache: Path | None = None,
    ) -> None:
        self.python, self.seconds, self.memory, self.at_once, self.fork = (
            python,
            seconds,
            memory,
            at_once,
            fork,
        )
        self.cache = None if cache is None else str(cache)
        # Read before any program could put another in its place.
        self._secret = "" if cache is None else secret_key()
        self.releases: dict[str, str] = {}
        self.limits: list[str] = []
        # Told how many jobs are done, of how many, and which run now.
        self.progress: Callable[[int, int, Sequence[Job]], None] = lambda done, total, running: None
        self._zygote: subprocess.Popen[bytes] | None = None
        self._answers = messages.Incoming("")
        self._wire: socket.socket | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            if self.fork:
                greeting = self._start_zygote()
            else:
                with (
                    tempfile.TemporaryFile() as errors,
                    children.start_child(self.python, "fresh_process", [], errors) as process,
                ):
                    children.give_jobs(process, {"task": "greet"})
                    greeting = children.read_greeting(self.python, process, errors)
                if not hasattr(os, "killpg"):
                    self.limits.append(
                        "this system has no process groups: child processes of a program are not stopped at "
                        "the time limit"
                    )
            if "missing" in greeting:
                told = f'{self.python} cannot import jax ({greeting["missing"]}): pip install "shardlint[verify]"'
                other = describe_other_environment(self.python, Path())
                raise CannotRun(f"{told}; {other}" if other else told)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.releases = {"python": greeting["python"], **greeting["releases"]}
        return self

    def _start_zygote(self) -> dict[str, Any]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed on exit
        # Not pipes: those anybody may open who has the process' number.
        ours, theirs = socket.socketpair()
        with theirs:
            self._wire = ours
            self._zygote = children.start_child(self.python, "zygote", [str(self.at_once)], self._errors, theirs)
        self._zygote.stdin, self._zygote.stdout = ours.makefile("wb"), ours.makefile("rb")
        if hasattr(os, "waitid"):
            threading.Thread(target=children.keep_going, args=(self._zygote.pid,), daemon=True).start()
        greeting = children.read_greeting(self.python, self._zygote, self._errors)
        self._answers = messages.Incoming(messages.new_mark())
        children.give_jobs(self._zygote, {"mark": self._answers.mark, "secret": self._secret})
        return greeting

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            with contextlib.suppress(OSError):
                zygote.stdin.close()  # type: ignore[union-attr]
            if self._wire is not None:
                # It ends with its input, and its children with it.
                with contextlib.suppress(OSError):
                    self._wire.shutdown(socket.SHUT_WR)
            try:
                zygote.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                children.kill_child(zygote)
                zygote.wait()
            zygote.stdout.close()  # type: ignore[union-attr]
            if self._wire is not None:
                self._wire.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def is_cached(self, job: Job) -> bool:
        """Return whether a job need not run, because its outcome is cached."""
        return False

    def run_jobs(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Do jobs and give each outcome as it comes. Raises `CannotRun` if this runner is left meanwhile."""
        numbered = [
            {"seconds": self.seconds, "memory": self.memory, "cache": self.cache, **job, "id": index}
            for index, job in enumerate(jobs)
        ]
        left = dict(enumerate(numbered))
        self.progress(0, len(numbered), numbered[: self.at_once])
        for outcome in (
            self._run_in_zygote(numbered) if self._zygote else self._run_in_fresh_processes(numbered)
        ):
            del left[outcome.job["id"]]
            self.progress(len(numbered) - len(left), len(numbered), list(left.values())[: self.at_once])
            for missing in outcome.values_of_key("limits"):
                self.limits += [limit for limit in missing if limit not in self.limits]
            yield outcome

    def _run_in_zygote(self, jobs: list[Job]) -> Iterator[Outcome]:
        outcomes = {job["id"]: Outcome(job) for job in jobs}
        while outcomes:
            zygote = self._zygote
            if zygote is None or zygote.stdout is None:
                raise CannotRun("the process that starts the programs has ended")
            # A thread, for the pipe may fill while answers wait to be read.
            left = [outcome.job for outcome in outcomes.values()]
            threading.Thread(target=children.give_jobs, args=(zygote, *left), daemon=True).start()
            while outcomes and not self._answers.spoilt and (data := children.received_data(zygote)):
                for answer in self._answers.take_messages(data):
                    outcome = outcomes.get(answer.get("id"))
                    if outcome is None:
                        self._answers.spoilt = True
                    elif "message" in answer:
                        outcome.messages.append(answer["message"])
                    else:
                        del outcomes[outcome.job["id"]]
                        outcome.finish_process(answer["end"])
                        yield outcome
            if outcomes and self._zygote is zygote:
                yield from self._restart_zygote(zygote, outcomes)

    def _restart_zygote(
        self, zygote: subprocess.Popen[bytes], outcomes: dict[int, Outcome]
    ) -> Iterator[Outcome]:
        """The outcomes of jobs that were running when the zygote ended; takes them out, and starts another one."""
        from shardlint.verify.inside.exits import describe_exit

        if self._answers.spoilt:
            children.kill_child(zygote)
        code = zygote.wait()
        how = "sent an answer to no request" if self._answers.spoilt else describe_exit(code) or "ended"
        why = (
            f"ended with the process that starts the programs, which {how}: perhaps because of a program "
            "that ran then"
        )
        output = children.last_errors(self._errors).splitlines()
        self.__exit__(None, None, None)
        self._start_zygote()
        for number in list(outcomes)[: self.at_once]:
            outcome = outcomes.pop(number)
            outcome.finish_process({"stopped": why, "output": output, "seconds": 0.0})
            yield outcome

    def _run_in_fresh_processes(self, jobs: list[Job]) -> Iterator[Outcome]:
        with ThreadPoolExecutor(self.at_once) as pool:
            for future in as_completed([pool.submit(self._run_in_fresh_process, job) for job in jobs]):
                yield future.result()

    def _run_in_fresh_process(self, job: Job) -> Outcome:
        """One job in one fresh process."""
        from shardlint.verify.inside import stacks
        from shardlint.verify.inside.captured_stderr import leftover_stderr
        from shardlint.verify.inside.exits import describe_exit

        outcome = Outcome(job)
        began = time.monotonic()
        tail = bytearray()
        reasons: list[str] = []
        process = children.start_child(self.python, "fresh_process", [], subprocess.PIPE)
        mark = messages.new_mark()
        stack, path = tempfile.mkstemp(prefix="shardlint-stack-")
        attendant = Attendant(job, mark, lambda data: children.write_reply(process, data), self._secret)

        def kill_process(reason: str) -> None:
            reasons.append(reason)
            children.kill_child(process)

        def keep_output() -> None:
            printed = 0
            while data := os.read(process.stderr.fileno(), 65536):  # type: ignore[union-attr]
                printed += len(data)
                tail.extend(data)
                del tail[:-32768]
                if printed > _OUTPUT_MAX and not reasons:
                    kill_process(f"killed after printing {_OUTPUT_MAX // 2**20} MiB")

        def out_of_time() -> None:
            stacks.ask_for_stack(process.pid, stack)
            kill_process(f"killed at the time limit of {job['seconds']:g} s")

        alarm = threading.Timer(job["seconds"], out_of_time)
        listener = threading.Thread(target=keep_output, daemon=True)
        alarm.start()
        listener.start()
        children.give_jobs(process, {**job, "mark": mark, "stack": path})
        while data := os.read(process.stdout.fileno(), 65536):  # type: ignore[union-attr]
            outcome.messages += attendant.take_messages(data)
            if attendant.is_output_corrupt and not reasons:
                kill_process(messages.SPOILT)
        # Its answers ended, so it has; now what it started, while it still holds the group's number.
        children.kill_child(process)
        code = process.wait()
        alarm.cancel()
        listener.join(1.0)
        tail.extend(leftover_stderr(process.pid)[-32768:])
        output = tail.decode("utf-8", "replace").splitlines()
        # A process that had ended well before may have left its pipes to others.
        stopped = reasons[0] if reasons and (code or attendant.is_output_corrupt) else describe_exit(code)
        end = {"stopped": stopped, "distrust": attendant.end_process(stopped), "stack": stacks.read_stacks(stack)}
        os.close(stack)
        Path(path).unlink(missing_ok=True)
        outcome.finish_process({**end, "output": output, "seconds": time.monotonic() - began})
        return outcome
