"""Everything a program started, found and ended, though it left its process group. Linux; nothing here imports jax.

A job's process adopts its descendants' orphans (`adopt_orphans`), so that while it lives all it ever started
lies below it; when it ends they fall to the process that started it, which does the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection

HERE = sys.platform == "linux"
# More than any loader of data starts; a program that forks without end has them in a second.
PROCESSES_MAX = 512
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_ROUNDS = 50


def adopt_orphans() -> bool:
    """Make this process the parent of descendants whose own parent ends. Returns whether the system does so."""
    return _call_prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends."""
    _call_prctl(_SET_PDEATHSIG, int(signal.SIGKILL))


def heed_signals() -> None:
    """Have SIGINT and SIGQUIT do in this process what they do by default.

    A shell has the commands of a script that run in the background ignore them, and so all that these start.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGQUIT"):
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def _call_prctl(option: int, value: int) -> bool:
    if not HERE:
        return False
    try:
        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False


def _parent_processes() -> dict[int, tuple[int, str]]:
    """The parent and state letter of every process."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all it takes, often
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:  # it has ended since
                continue
            found[int(name)] = int(fields[1]), fields[0].decode()
    return found


def processes_below(root: int, spared: Collection[int] = ()) -> list[int]:
    """The living processes that descend from `root`, without itself, `spared` processes and what is below those."""
    if not HERE:
        return []
    parents = _parent_processes()
    children: dict[int, list[int]] = {}
    for process, (parent, _) in parents.items():
        children.setdefault(parent, []).append(process)
    found, waiting = [], [root]
    while waiting:
        new = [process for process in children.get(waiting.pop(), []) if process not in spared]
        found += [process for process in new if parents[process][1] not in "ZX"]
        waiting += new
    return found


def end_below(root: int, spared: Collection[int] = ()) -> None:
    """Kill all that is `processes_below` a process.

    First all are stopped, again and again until there is no new one: what is stopped starts nothing.
    """
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        new = [process for process in processes_below(root, spared) if process not in stopped]
        if not new:
            break
        for process in new:
            _send_signal(process, signal.SIGSTOP)
        stopped.update(new)
    for process in stopped:
        _send_signal(process, signal.SIGKILL)


def processor_ticks(process: int) -> int:
    """Processor time a process and its threads have used, in clock ticks; 0 for one that has ended."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _send_signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
