"""One process that has imported jax and forks a child for each job, so that a job costs no import.

It never starts a jax backend itself: threads do not survive a fork. Jobs come as lines of JSON on
standard input; answers go out the same way: `{"id", "message"}` for each message of a job, `{"id",
"end"}` when it is over. The end of standard input ends everything, children included.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from shardlint.verify import containment, messages
from shardlint.verify.inside import captured_stderr, guard, stacks, tasks
from shardlint.verify.inside.exits import describe_exit, exit_now
from shardlint.verify.job_attendance import Attendant

_TAIL = 32 * 1024
_COUNT_SECONDS = 0.5
_OUTPUT_MAX = 16 * 2**20


@dataclass
class _Child:
    """A job that is running: its process (leader of its own group) and what it has sent and printed so
    far.
    """

    job: tasks.Job
    pid: int
    attendant: Attendant
    output: int
    orders: int
    stack: int
    began: float
    counted: float = 0.0
    tail: bytes = b""
    printed: int = 0
    open: set[int] = field(default_factory=set)


class Zygote:
    """Runs up to `at_once` jobs side by side, each within its limits."""

    def __init__(self, orders: int, answers: int, at_once: int, mark: str, secret: str) -> None:
        """`mark` is that of the answers, `secret` the key of the cache: no child is to know them."""
        self.orders, self.answers, self.at_once, self.secret = orders, answers, at_once, secret
        self.answer = messages.message_sender(answers, mark)
        self.waiting: list[tasks.Job] = []
        self.children: dict[int, _Child] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(orders, selectors.EVENT_READ)
        self.unread = b""

    def serve_jobs(self) -> None:
        """Work until standard input ends."""
        try:
            while True:
                while self.waiting and len(self.children) < self.at_once:
                    self._start_child(self.waiting.pop(0))
                # Short sleeps while something runs: children can end without a word, and have deadlines.
                for key, _ in self.selector.select(0.05 if self.children else None):
                    if key.fd == self.orders:
                        if not self._take_orders():
                            return
                    else:
                        self._read_pipe(self.children[key.data], key.fd)
                for child in list(self.children.values()):
                    self._check_child(child)
                self._reap_strays()
        finally:
            for child in self.children.values():
                _kill_group(child.pid)
            containment.end_below(os.getpid())

    def _take_orders(self) -> bool:
        data = os.read(self.orders, 65536)
        *lines, self.unread = (self.unread + data).split(b"\n")
        self.waiting += [json.loads(line) for line in lines]
        return bool(data)

    def _start_child(self, job: tasks.Job) -> None:
        listen, send = os.pipe()
        output, write = os.pipe()
        read, order = os.pipe()
        stack = stacks.new_file()
        mark = messages.new_mark()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that forking threads is dangerous; jax has started none yet
            pid = os.fork()
        if pid == 0:
            self._become_child(job, send, mark, write, read, stack, (listen, output, order))
        for descriptor in (send, write, read):
            os.close(descriptor)
        os.set_blocking(order, False)
        attendant = Attendant(job, mark, lambda data: os.write(order, data), self.secret)
        child = _Child(job, pid, attendant, output, order, stack, time.monotonic(), open={listen, output})
        self.children[pid] = child
        for descriptor in (listen, output):
            os.set_blocking(descriptor, False)
            self.selector.register(descriptor, selectors.EVENT_READ, pid)

    def _become_child(
        self,
        job: tasks.Job,
        send: int,
        mark: str,
        write: int,
        read: int,
        stack: int,
        parents: tuple[int, ...],
    ) -> None:
        """The rest of a child's life: does its job and never returns."""
        try:
            os.setsid()
            containment.heed_signals()
            containment.die_with_parent()
            containment.adopt_orphans()
            null = os.open(os.devnull, os.O_RDONLY)
            for descriptor, target in ((null, 0), (write, 1), (write, 2)):
                os.dup2(descriptor, target)
            others = [
                fd for child in self.children.values() for fd in (*child.open, child.orders, child.stack)
            ]
            for descriptor in (self.orders, self.answers, *parents, *others):
                os.close(descriptor)
            # What the program's process knows, the program may find.
            self.children.clear()
            self.secret = ""
            del self.answer
            stacks.dump_to(stack)
            tasks.run_job(job, send, mark, read)
        finally:
            exit_now(0)

    def _read_pipe(self, child: _Child, descriptor: int) -> bool:
        """Take what a child wrote to a pipe; whether there may be more."""
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return False
        if not data:
            self._hang_up(child, descriptor)
        elif descriptor == child.output:
            child.printed += len(data)
            child.tail = (child.tail + data)[-_TAIL:]
        else:
            for message in child.attendant.take_messages(data):
                self.answer({"id": child.job["id"], "message": message})
        return bool(data)

    def _hang_up(self, child: _Child, descriptor: int) -> None:
        if descriptor in child.open:
            self.selector.unregister(descriptor)
            os.close(descriptor)
            child.open.discard(descriptor)

    def _check_child(self, child: _Child) -> None:
        """End a child that is over its limits, and report one that has ended."""
        reason = ""
        over = time.monotonic() - child.began > child.job["seconds"]
        if over:
            reason = f"killed at the time limit of {child.job['seconds']:g} s"
        elif child.printed > _OUTPUT_MAX:
            reason = f"killed after printing {_OUTPUT_MAX // 2**20} MiB"
        elif self._has_too_many(child):
            reason = f"killed after starting more than {_process_limit(child.job)} processes"
        elif child.attendant.is_output_corrupt:
            reason = messages.SPOILT
        if reason:
            if over:
                stacks.ask_for_stack(child.pid, child.stack)
            _kill_group(child.pid)
        # The group is killed while the dead leader still holds its number, so no other process can be hit.
        if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | (0 if reason else os.WNOHANG)) is None:
            return
        _kill_group(child.pid)
        _, status = os.waitpid(child.pid, 0)
        # What it started and what left its group has fallen to this process: all that is no other job's.
        containment.end_below(os.getpid(), [pid for pid in self.children if pid != child.pid])
        for descriptor in list(child.open):
            # What it wrote before it ended. A pipe holds little: more must come from a process that got away.
            reads = 0
            while self._read_pipe(child, descriptor) and reads < 32:
                reads += 1
            self._hang_up(child, descriptor)
        if child.attendant.is_output_corrupt:
            reason = reason or messages.SPOILT
        child.tail = (child.tail + captured_stderr.leftover_stderr(child.pid))[-_TAIL:]
        del self.children[child.pid]
        stopped = reason or describe_exit(os.waitstatus_to_exitcode(status))
        end = {
            "stopped": stopped,
            "distrust": child.attendant.end_process(stopped),
            "stack": stacks.read_stacks(child.stack),
            "output": child.tail.decode("utf-8", "replace").splitlines(),
            "seconds": time.monotonic() - child.began,
        }
        os.close(child.orders)
        os.close(child.stack)
        self.answer({"id": child.job["id"], "end": end})

    def _has_too_many(self, child: _Child) -> bool:
        now = time.monotonic()
        if now - child.counted < _COUNT_SECONDS:
            return False
        child.counted = now
        return len(containment.processes_below(child.pid)) > _process_limit(child.job)

    def _reap_strays(self) -> None:
        """Take leave of dead processes that jobs have left."""
        with contextlib.suppress(ChildProcessError):
            while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if dead.si_pid in self.children:
                    return
                os.waitpid(dead.si_pid, 0)


def _process_limit(job: tasks.Job) -> int:
    """How many processes a job may have started at a time."""
    return int(job.get("children", containment.PROCESSES_MAX))


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Not yet the leader of its group (just forked), or already gone.
        with contextlib.suppress(ProcessLookupError):
            os.kill(group, signal.SIGKILL)


def main() -> None:
    """Be the zygote: `argv` holds how many jobs may run at once."""
    containment.adopt_orphans()
    # Ctrl-C is for the command; one that comes here is a program's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing but answers may go where they go
    orders = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    messages.write_line(answers, import_and_greet())
    # Not kept here, where what is forked could find it.
    Zygote(orders, answers, int(sys.argv[1]), **messages.read_line(orders)).serve_jobs()


def import_and_greet() -> dict[str, Any]:
    """Import what jobs need, and say which releases there are."""
    import importlib.metadata

    os.environ["JAX_PLATFORMS"] = "cpu"
    releases = {}
    for name in (
        "jax",
        "jaxlib",
        "equinox",
        "flax",
        "haliax",
        "einshard",
        "optax",
        "orbax-checkpoint",
        "numpy",
    ):
        try:
            releases[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    python = ".".join(map(str, sys.version_info[:3]))
    try:
        importlib.import_module("jax.numpy")
    except ImportError as error:
        return {"missing": str(error), "releases": releases, "python": python}
    # A release that does not fit this jax may fail in any way; only programs that use it are to fail then.
    with contextlib.suppress(Exception):
        importlib.import_module("equinox")
    # Once, for all that are forked from here.
    guard.prepare_guard()
    return {"releases": releases, "python": python}
