"""Level `processes`: starts the processes of a `jax.distributed` program on this machine, compares what they
are about to run and what they hold, and says where each stood when they come to no end.

It runs nothing of the user's, so that nothing the processes do can keep it from ending them. Each is an interpreter
of its own, with another order of sets than the others (PYTHONHASHSEED), as on the machines it stands for.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from shardlint.verify import boot, containment, messages
from shardlint.verify.inside import consistency, exits, stacks, worker
from shardlint.verify.report import FAIL, PASS, SKIP, Failure, Result

# A process that only waits takes some 3 ms a second, for heartbeats; one that works takes 1000.
_IDLE = 0.01
_GRACE = 1.0
# How often, in seconds, the work of all processes is counted, which takes a look at each; and the bytes printed that
# are work too: a process that prints without end mostly waits to be read, and one that hangs may still print a warning.
_LOOK, _MUCH = 0.2, 2**16
_LINES = 20
# jax's network layer greets on every connection.
_NOISE = (b"[Gloo] Rank ",)


class _Process:
    """A process of the program: what it has said and printed, and where it is."""

    def __init__(self, index: int, pid: int, said: int, printed: int, orders: int, mark: str) -> None:
        self.index, self.pid, self.said, self.printed, self.orders = index, pid, said, printed, orders
        self.messages = messages.Incoming(mark)
        self.told: dict[str, Any] = {}
        self.stage = "starting"
        self.ended: int | None = None
        self.partial = b""
        self.open = {said, printed}
        self.lines: list[str] = []
        self.calls: list[consistency.Call] = []

    def take_message(self, message: dict[str, Any]) -> None:
        """Take in what it says."""
        if "call" in message:
            self.calls.append(message["call"])
            return
        self.stage = message.get("stage", self.stage)
        self.told |= message


def conduct_processes(job: dict[str, Any], emit: Callable[[Result], None]) -> None:
    """Do a job of level `processes` and emit its one result."""
    result = Result(job["label"], "processes", SKIP, job["mesh"])
    if not containment.HERE:
        result.reason = "running several processes is supported on Linux only"
        emit(result)
        return
    containment.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="shardlint-") as folder, _reserve_port() as held:
        coordinator = _Conductor(job, held.getsockname()[1], Path(folder))
        try:
            coordinator.conduct_run(result)
        finally:
            coordinator.end_processes()
    emit(result)


def _reserve_port() -> socket.socket:
    """A port of this machine's own network, kept from anyone else: a second socket may share it, which is
    how jax's coordinator opens its own, but none is given it by chance.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", 0))
    return held


class _Conductor:
    def __init__(self, job: dict[str, Any], port: int, folder: Path) -> None:
        self.job, self.port, self.folder = job, port, folder
        self.stall = float(job["stall"])
        self.selector = selectors.DefaultSelector()
        self.began, self.printed = time.monotonic(), 0
        self.processes: list[_Process] = []
        for index in range(job["processes"]):
            self.processes.append(self._start_process(index))

    def conduct_run(self, result: Result) -> None:
        """Run the program and fill in what became of it."""
        result.status = FAIL
        result.failures = self._wait_for("ready")
        skipped = next((one.told["skip"] for one in self.processes if "skip" in one.told), "")
        if skipped and not result.failures:
            result.status, result.reason = SKIP, skipped
            return
        result.line = next((one.told["line"] for one in self.processes if "line" in one.told), "")
        if not result.failures:
            ready = [one.told["ready"] for one in self.processes]
            result.failures, result.checked = consistency.compare_before_run(ready, self.folder)
            if not ready[0]["program"]:
                result.notes.append(
                    "fn is a plain function: its programs could not be compared before they ran"
                )
        if not result.failures:
            for one in self.processes:
                os.write(one.orders, b"\n")
            result.failures = self._wait_for("result")
        if not result.failures:
            results = [one.told["result"] for one in self.processes]
            calls = [one.calls for one in self.processes]
            apart, note = consistency.compare_calls(calls, [one["made"] for one in results])
            result.notes += [note] if note else []
            result.notes += dict.fromkeys(text for one in results for text in one["notes"])
            result.failures, count = consistency.compare_after_run(results, self._describe_call_order())
            result.failures = [apart] if apart else result.failures
            # A jit's program was counted when it was compared before.
            result.checked += count + sum(len(call["host"]) for call in calls[0])
            result.checked += 0 if ready[0]["program"] else len(calls[0])
            changed = next((one.told["changed"] for one in self.processes if one.told.get("changed")), "")
            if changed:
                text = f"the program replaced {changed}, which the checks need"
                result.failures.append(Failure("distrust", text))
        count, devices = self.job["processes"], self.job["devices"]
        under = next((one.told["under"] for one in self.processes if "under" in one.told), "")
        result.how = f"run as {count} processes with {devices} devices each" + (
            f", under {under}" if under else ""
        )
        if result.failures:
            result.output = self._last_printed_lines()
        else:
            result.status = PASS

    def end_processes(self) -> None:
        """End all processes and whatever they started, at once: jax has those left complain at length."""
        for one in self.processes:
            if one.ended is None:
                os.kill(one.pid, signal.SIGSTOP)
        containment.end_below(os.getpid())
        for one in self.processes:
            if one.ended is None:
                os.waitpid(one.pid, 0)
            for descriptor in list(one.open):
                self._hang_up(one, descriptor)

    def _start_process(self, index: int) -> _Process:
        said, say = os.pipe()
        printed, write = os.pipe()
        orders, order = os.pipe()
        mark = messages.new_mark()
        sys.stdout.flush()
        sys.stderr.flush()
        dup = os.POSIX_SPAWN_DUP2
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", boot.BOOT.format(module="worker"), boot.PACKAGE],
            {**os.environ, "PYTHONHASHSEED": str(index + 1)},
            # In this order: each takes the place of a number that is not needed any more.
            file_actions=[(dup, orders, 0), (dup, say, worker.SAY), (dup, write, 1), (dup, write, 2)],
        )
        for descriptor in (say, write, orders):
            os.close(descriptor)
        for descriptor in (said, printed):
            os.set_blocking(descriptor, False)
            self.selector.register(descriptor, selectors.EVENT_READ, index)
        about = {"job": self.job, "index": index, "port": self.port, "folder": str(self.folder), "mark": mark}
        messages.write_line(order, about)
        return _Process(index, pid, said, printed, order, mark)

    def _wait_for(self, key: str) -> list[Failure]:
        """Listen until every process has told `key` (or that the mesh does not divide); what kept them from it."""
        quiet_since, used, printed = time.monotonic(), 0, self.printed
        looked = quiet_since
        trouble = 0.0
        while True:
            left = [one for one in self.processes if key not in one.told and "skip" not in one.told]
            if not left:
                return []
            for selected, _ in self.selector.select(0.1):
                self._read_pipe(self.processes[selected.data], selected.fd)
            self._reap_processes()
            now = time.monotonic()
            if trouble == 0.0 and any("raised" in one.told or one.ended is not None for one in left):
                trouble = now
            stuck = [one for one in left if "raised" not in one.told and one.ended is None]
            if trouble and (not stuck or now - trouble > _GRACE):
                return self._process_failures(stuck)
            if now - self.began > self.job["limit"]:
                return [self._hang_failure(f"killed at the time limit of {self.job['limit']:g} s", stuck)]
            if now - looked < _LOOK:
                continue
            looked, spent = now, self._processor_ticks()
            idle = _IDLE * os.sysconf("SC_CLK_TCK") * len(self.processes) * (now - quiet_since) + 1
            if not 0 <= spent - used <= idle:  # less than before: one of them has ended
                quiet_since, used = now, spent
            if self.printed - printed > _MUCH:
                quiet_since, printed = now, self.printed
            if now - quiet_since > self.stall:
                return [self._hang_failure(f"hangs: no process did anything for {self.stall:g} s", stuck)]

    def _processor_ticks(self) -> int:
        return sum(map(containment.processor_ticks, containment.processes_below(os.getpid())))

    def _process_failures(self, stuck: Sequence[_Process]) -> list[Failure]:
        """Return the failures of the processes that raised or ended, merged if all are equal."""
        raised = {one.index: one.told["raised"] for one in self.processes if "raised" in one.told}
        if len(raised) == len(self.processes) and len(set(raised.values())) == 1:
            return [Failure("raised", f"every process {next(iter(raised.values()))}")]
        found = [Failure("raised", f"process {index} {text}") for index, text in raised.items()]
        for one in self.processes:
            if one.ended is not None and "raised" not in one.told:
                how = exits.describe_exit(one.ended) or "ended with exit code 0"
                place = stacks.users_line(self._read_stack(one))
                found.append(Failure("stopped", f"process {one.index} {how} while {one.stage}", place))
        if found:
            found[-1].message += "".join(f"\n{line}" for line in self._lines_of_processes(stuck))
            # Programs that meet each other's messages may raise anything. What one of them alone has run comes of
            # another's end.
            both = min(len(one.calls) for one in self.processes)
            order = self._order_of_calls([one.calls[:both] for one in self.processes])
            found[-1].message += f"\n{order}" if order else ""
        return found

    def _hang_failure(self, what: str, stuck: Sequence[_Process]) -> Failure:
        lines = list(self._lines_of_processes(stuck))
        lines += [f"process {one.index} is {one.stage}" for one in self.processes if one not in stuck]
        order = self._describe_call_order()
        return Failure("stopped", "\n".join([what, *sorted(lines), *([order] if order else [])]))

    def _describe_call_order(self) -> str:
        """The first call in which the processes' programs differ, as a sentence."""
        return self._order_of_calls([one.calls for one in self.processes])

    def _order_of_calls(self, calls: Sequence[Sequence[consistency.Call]]) -> str:
        return consistency.first_call_difference(
            [[[call["name"], call["line"]] for call in one] for one in calls]
        )

    def _lines_of_processes(self, stuck: Sequence[_Process]) -> Iterator[str]:
        """Where each of some processes stands: the line of the user's it has called from."""
        for one in stuck:
            os.kill(one.pid, signal.SIGUSR1)
        until = time.monotonic() + _GRACE
        for one in stuck:
            while not (text := self._read_stack(one)) and time.monotonic() <= until:
                time.sleep(0.02)
            time.sleep(0.05)  # the rest of it
            place = stacks.users_line(self._read_stack(one) if text else "")
            yield f"process {one.index} is {one.stage}" + (f", at {place}" if place else "")

    def _read_stack(self, process: _Process) -> str:
        """Return the stack that a process wrote, also when it crashed."""
        file = self.folder / f"stack{process.index}"
        return file.read_text("utf-8", "replace") if file.exists() else ""

    def _reap_processes(self) -> None:
        for one in self.processes:
            if one.ended is None:
                pid, status = os.waitpid(one.pid, os.WNOHANG)
                if pid:
                    one.ended = os.waitstatus_to_exitcode(status)
                    for descriptor in list(one.open):
                        while self._read_pipe(one, descriptor):
                            pass

    def _read_pipe(self, process: _Process, descriptor: int) -> bool:
        """Take what a process wrote to a pipe; whether there may be more."""
        if descriptor not in process.open:
            return False
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return False
        if descriptor == process.said:
            for message in process.messages.take_messages(data):
                process.take_message(message)
            if process.messages.spoilt:
                process.told["raised"] = messages.SPOILT
        else:
            self._print_output(process, data)
        if not data:
            self._hang_up(process, descriptor)
        return bool(data)

    def _print_output(self, process: _Process, data: bytes) -> None:
        self.printed += len(data)
        *lines, process.partial = (process.partial + data).split(b"\n")
        for line in lines:
            if line.strip() and not line.startswith(_NOISE):
                text = line.decode("utf-8", "replace")[:2000]
                process.lines = [*process.lines, text][-_LINES:]
                # Onwards, where the limit of output is watched.
                print(f"process {process.index}: {text}", flush=True)
        if len(process.partial) > 2**20:
            print(process.partial.decode("utf-8", "replace"), flush=True)
            process.partial = b""

    def _hang_up(self, process: _Process, descriptor: int) -> None:
        self.selector.unregister(descriptor)
        os.close(descriptor)
        process.open.discard(descriptor)

    def _last_printed_lines(self) -> list[str]:
        """The last lines of each process."""
        each = _LINES // len(self.processes) or 1
        return [f"process {one.index}: {line}" for one in self.processes for line in one.lines[-each:]]
