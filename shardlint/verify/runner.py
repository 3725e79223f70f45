"""Running jobs in child processes that cannot hurt the command, whatever they do.

Nothing here imports jax. On Linux one zygote imports it once and forks a child a job. Elsewhere
each job is a fresh process: Windows has no fork, and on macOS the frameworks numpy and jax load do
not survive one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeGuard

from shardlint.verify import contain, messages

Job = dict[str, Any]

# Children see shardlint's own source and nothing else of the environment the command runs in: with
# another interpreter the packages beside it would be built for the wrong one. The working directory
# is not importable until a job asks.
_BOOT = """
import sys, types
sys.path[:] = [path for path in sys.path if path]
package = types.ModuleType("shardlint")
package.__path__ = [sys.argv.pop(1)]
sys.modules["shardlint"] = package
from shardlint.verify.inside.{module} import main
main()
"""
# What a program may take unless told otherwise.
SECONDS, MEMORY = 120.0, "16GiB"
_START_SECONDS, _END_SECONDS = 300.0, 10.0
_LINES = 20
_OUTPUT_MAX = 16 * 2**20


class CannotRun(Exception):
    """The run itself is not possible; the message says what to do."""


@dataclass
class Outcome:
    """What became of a job: the messages it sent and, if it did not reach its end, how it was stopped."""

    job: Job
    messages: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""
    output: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def finish(self, end: dict[str, Any]) -> None:
        """Take in the end of the process."""
        own = next((message["stopped"] for message in self.messages if "stopped" in message), "")
        done = any("done" in message for message in self.messages)
        # What it sent does not count for more than its end: a program that is done may still crash.
        ended = "" if done else "ended before it was done, with exit code 0"
        self.stopped = own or end["stopped"] or ended
        self.output = [line.rstrip() for line in end["output"] if line.strip()][-_LINES:]
        self.seconds = end["seconds"]

    def all(self, key: str) -> list[Any]:
        """What every message has under `key`."""
        return [message[key] for message in self.messages if key in message]


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
        self.releases: dict[str, str] = {}
        self.limits: list[str] = []
        # Told how many jobs are done, of how many, and which run now.
        self.progress: Callable[[int, int, Sequence[Job]], None] = lambda done, total, running: None
        self._zygote: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            if self.fork:
                greeting = self._start_zygote()
            else:
                with tempfile.TemporaryFile() as errors, self._open("fresh", [], errors) as process:
                    _give(process, {"task": "greet"})
                    greeting = self._greeting(process, errors)
                if not hasattr(os, "killpg"):
                    self.limits.append(
                        "no process groups on this system: what a program starts outlives its time limit"
                    )
            if "missing" in greeting:
                raise CannotRun(
                    f'{self.python} cannot import jax ({greeting["missing"]}): pip install "shardlint[verify]"'
                )
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.releases = {"python": greeting["python"], **greeting["releases"]}
        return self

    def _start_zygote(self) -> dict[str, Any]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed on exit
        self._zygote = self._open("zygote", [str(self.at_once)], self._errors)
        if hasattr(os, "waitid"):
            threading.Thread(target=_keep_going, args=(self._zygote.pid,), daemon=True).start()
        return self._greeting(self._zygote, self._errors)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            with contextlib.suppress(OSError):
                zygote.stdin.close()  # type: ignore[union-attr]  # it ends with its input, and its children with it
            try:
                zygote.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                _kill(zygote)
                zygote.wait()
            zygote.stdout.close()  # type: ignore[union-attr]
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Do jobs and give each outcome as it comes. Raises `CannotRun` if this runner is left meanwhile."""
        numbered = [
            {"seconds": self.seconds, "memory": self.memory, "cache": self.cache, **job, "id": index}
            for index, job in enumerate(jobs)
        ]
        left = dict(enumerate(numbered))
        self.progress(0, len(numbered), numbered[: self.at_once])
        for outcome in self._forked(numbered) if self._zygote else self._fresh(numbered):
            del left[outcome.job["id"]]
            self.progress(len(numbered) - len(left), len(numbered), list(left.values())[: self.at_once])
            for missing in outcome.all("limits"):
                self.limits += [limit for limit in missing if limit not in self.limits]
            yield outcome

    def _forked(self, jobs: list[Job]) -> Iterator[Outcome]:
        outcomes = {job["id"]: Outcome(job) for job in jobs}
        while outcomes:
            zygote = self._zygote
            if zygote is None or zygote.stdout is None:
                raise CannotRun("the process that starts the programs has ended")
            # A thread, for the pipe may fill while answers wait to be read.
            left = [outcome.job for outcome in outcomes.values()]
            threading.Thread(target=_give, args=(zygote, *left), daemon=True).start()
            while outcomes and (line := zygote.stdout.readline()).endswith(b"\n"):
                answer = json.loads(line)
                if "message" in answer:
                    outcomes[answer["id"]].messages.append(answer["message"])
                else:
                    outcome = outcomes.pop(answer["id"])
                    outcome.finish(answer["end"])
                    yield outcome
            if outcomes and self._zygote is zygote:
                yield from self._lose(zygote, outcomes)

    def _lose(self, zygote: subprocess.Popen[bytes], outcomes: dict[int, Outcome]) -> Iterator[Outcome]:
        """The outcomes of jobs that were running when the zygote ended; takes them out, and starts another one."""
        from shardlint.verify.inside.zygote import died

        how = died(zygote.wait()) or "ended"
        why = f"ended with the process that starts the programs, which {how}: one that ran then may have done it"
        output = _last(self._errors).splitlines()
        self.__exit__(None, None, None)
        self._start_zygote()
        for number in list(outcomes)[: self.at_once]:
            outcome = outcomes.pop(number)
            outcome.finish({"stopped": why, "output": output, "seconds": 0.0})
            yield outcome

    def _fresh(self, jobs: list[Job]) -> Iterator[Outcome]:
        with ThreadPoolExecutor(self.at_once) as pool:
            for future in as_completed([pool.submit(self._alone, job) for job in jobs]):
                yield future.result()

    def _alone(self, job: Job) -> Outcome:
        """One job in one fresh process."""
        outcome = Outcome(job)
        began = time.monotonic()
        tail = bytearray()
        reasons: list[str] = []
        process = self._open("fresh", [], subprocess.PIPE)
        incoming = messages.Incoming(messages.new_mark())

        def kill(reason: str) -> None:
            reasons.append(reason)
            _kill(process)

        def keep_output() -> None:
            printed = 0
            while data := os.read(process.stderr.fileno(), 65536):  # type: ignore[union-attr]
                printed += len(data)
                tail.extend(data)
                del tail[:-32768]
                if printed > _OUTPUT_MAX and not reasons:
                    kill(f"killed after printing {_OUTPUT_MAX // 2**20} MiB")

        alarm = threading.Timer(job["seconds"], kill, [f"killed at the time limit of {job['seconds']:g} s"])
        listener = threading.Thread(target=keep_output, daemon=True)
        alarm.start()
        listener.start()
        _give(process, {**job, "mark": incoming.mark.decode()})
        while data := os.read(process.stdout.fileno(), 65536):  # type: ignore[union-attr]
            outcome.messages += incoming.take(data)
            if incoming.spoilt and not reasons:
                kill(messages.SPOILT)
        # Its answers ended, so it has; now what it started, while it still holds the group's number.
        _kill(process)
        code = process.wait()
        alarm.cancel()
        listener.join(1.0)
        from shardlint.verify.inside.heard import leftover
        from shardlint.verify.inside.zygote import died

        tail.extend(leftover(process.pid)[-32768:])
        output = tail.decode("utf-8", "replace").splitlines()
        # A process that had ended well before may have left its pipes to others.
        stopped = reasons[0] if reasons and (code or incoming.spoilt) else died(code)
        outcome.finish({"stopped": stopped, "output": output, "seconds": time.monotonic() - began})
        return outcome

    def _open(self, module: str, arguments: list[str], errors: Any) -> subprocess.Popen[bytes]:
        package = str(Path(__file__).resolve().parent.parent)
        command = [self.python, "-c", _BOOT.format(module=module), package, *arguments]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONUTF8": "1"}
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                # So that Ctrl-C reaches the command alone, which then ends its children.
                start_new_session=True,
            )
        except OSError as error:
            raise CannotRun(f"cannot start {self.python}: {error}") from error

    def _greeting(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> dict[str, Any]:
        alarm = threading.Timer(_START_SECONDS, _kill, [process])
        alarm.daemon = True
        alarm.start()
        line, greeting = b"", None
        try:
            line = process.stdout.readline(65536) if process.stdout else b""
            with contextlib.suppress(ValueError):
                greeting = json.loads(line)
        finally:
            alarm.cancel()
            if not _greets(greeting):
                _kill(process)
                process.wait()
        if not _greets(greeting):
            wrote = f" but wrote {line[:200].decode('utf-8', 'replace')!r} first" if line else ""
            raise CannotRun(f"{self.python} did not start the verifier{wrote}{_last(errors)}")
        return dict(greeting)


def _greets(greeting: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(greeting, dict) and isinstance(greeting.get("releases"), dict) and "python" in greeting


def _keep_going(pid: int) -> None:
    """Continue a process whenever a program has stopped it, until it ends."""
    with contextlib.suppress(OSError):
        while (state := os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)) is not None:
            if state.si_code != os.CLD_STOPPED:
                return
            os.kill(pid, signal.SIGCONT)


def _give(process: subprocess.Popen[bytes], *jobs: Job) -> None:
    assert process.stdin is not None
    # A process that died has its reader to tell of it.
    with contextlib.suppress(OSError, ValueError):
        for job in jobs:
            process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()


def _kill(process: subprocess.Popen[bytes]) -> None:
    contain.end_below(process.pid)
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _last(errors: IO[bytes] | None) -> str:
    """The end of what a process wrote to standard error, to put behind a message."""
    if errors is None:
        return ""
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()[-8:]
    return ": " + "\n  ".join(lines) if lines else ""
