"""External inputs of a program, recorded while it runs: files, folders, imports, the clock.

Files are those that Python opens (an audit hook tells, of libraries too) and those of the modules that are there in the
end. What another language opens by itself, as tensorstore and h5py do, is not seen.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import site
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from typing import Any

Reads = dict[str, Any]

_SYSTEM = ("/proc/", "/sys/", "/dev/")
# These list folders to find modules and installed packages; what of that counts is told by names.
_IMPORTERS = ("<frozen importlib", os.path.dirname(importlib.util.__file__ or "<frozen importlib"))
_OUTSIDE = {
    "subprocess.Popen": "starts a process",
    "os.system": "starts a process",
    "os.exec": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "pty.spawn": "starts a process",
    "socket.connect": "uses the network",
    "socket.bind": "uses the network",
    "socket.getaddrinfo": "uses the network",
    "socket.gethostbyname": "uses the network",
    "sqlite3.connect": "opens a database",
}


class _Noted:
    """External inputs recorded so far."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self.names: set[str] = set()
        self.not_kept: dict[str, str] = {}
        self.libraries = library_folders()

    def refuse_to_cache(self, what: str, depth: int = 2) -> None:
        """Note something that a later run could find otherwise, with the line of the program that did it."""
        frame = self.asking_frame(depth + 1)
        if frame is not None:
            self.not_kept.setdefault(what, f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def asking_frame(self, depth: int = 2) -> Any:
        """The frame of the program that asks for something; None where none does, or a library that is being imported
        (as those do which make a name for a temporary file).
        """
        frame: Any = sys._getframe(depth)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith("<frozen importlib"):
                return None
            if not (file.startswith((*self.libraries, "<")) or _is_ours(frame.f_globals)):
                return frame
            frame = frame.f_back
        return None

    def on_audit_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Take in an audit event."""
        if event == "open":
            path, _, flags = args
            if isinstance(path, str | bytes | os.PathLike) and (flags or 0) & 3 != os.O_WRONLY:
                self._add_path(self.files, path)
        elif event == "import":
            self.names.add(str(args[0]))
        elif event in ("os.listdir", "os.scandir"):
            if not sys._getframe(1).f_code.co_filename.startswith(_IMPORTERS):
                self._add_path(self.folders, args[0] or ".")
        elif event in _OUTSIDE:
            self.refuse_to_cache(_OUTSIDE[event])

    def _add_path(self, to: set[str], path: Any) -> None:
        if isinstance(path, int):
            return
        # A working directory that was removed is the program's to fail of.
        with contextlib.suppress(OSError, ValueError, TypeError):
            whole = os.path.abspath(os.fsdecode(path))
            if not whole.startswith(_SYSTEM):
                to.add(whole)


_timeless: list[bool] = []


@contextlib.contextmanager
def whatever_the_time() -> Iterator[None]:
    """Let the code in the block read the time and random numbers, because its shardings do not depend on them."""
    import numpy as np

    states = random.getstate(), np.random.get_state()
    _timeless.append(True)
    try:
        yield
    finally:
        _timeless.pop()
        random.setstate(states[0])
        np.random.set_state(states[1])


def _is_ours(space: dict[str, Any]) -> bool:
    return str(space.get("__name__", "")).startswith("shardlint.")


def library_folders() -> tuple[str, ...]:
    """The folders of Python itself and of installed packages, each with a separator at its end."""
    paths = sysconfig.get_paths()
    found = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    real = [os.path.realpath(path) for path in found]
    return tuple(dict.fromkeys(os.path.join(path, "") for path in (*found, *real)))


def begin_noting(leave_out: tuple[str, ...]) -> Callable[[], Reads]:
    """Begin to note; the function returned tells. Nothing below the folders `leave_out` counts."""
    noted = _Noted()
    drawn = _watch_clock_and_chance(noted)
    sys.addaudithook(noted.on_audit_event)

    def noted_reads() -> Reads:
        files, names = set(noted.files), set(noted.names)
        packages: set[str] = set()
        for name, module in list(sys.modules.items()):
            names.add(name)
            space = getattr(module, "__dict__", {})
            file = space.get("__file__")
            if isinstance(file, str):
                files.add(os.path.abspath(file))
            with contextlib.suppress(TypeError):
                packages |= {str(folder) for folder in space.get("__path__") or ()}
        drawn()
        out = tuple(os.path.join(os.path.abspath(folder), "") for folder in leave_out)
        return {
            "files": sorted(
                {source for file in files if not (source := _source_of_compiled(file)).startswith(out)}
            ),
            "folders": sorted(folder for folder in noted.folders if not f"{folder}/".startswith(out)),
            "names": sorted({part for name in names for part in name.split(".")}),
            "path": [os.path.abspath(folder) for folder in sys.path],
            "packages": sorted(packages),
            "libraries": list(noted.libraries),
            "not_kept": [f"{where} {what}" for what, where in noted.not_kept.items()],
        }

    return noted_reads


def _source_of_compiled(file: str) -> str:
    """The file itself, of compiled code the source that it was compiled from."""
    if file.endswith(".pyc"):
        with contextlib.suppress(ValueError):
            return importlib.util.source_from_cache(file)
    return file


def _watch_clock_and_chance(noted: _Noted) -> Callable[[], None]:
    """Put in their places functions that note who asks for the time of day and for chance; what is returned notes
    whether numbers were drawn from a generator that nobody seeded.
    """
    import numpy as np

    def watch_function(module: Any, name: str, what: str) -> None:
        function = getattr(module, name)

        def call_and_refuse(*args: Any, **keywords: Any) -> Any:
            if not _timeless:
                noted.refuse_to_cache(what)
            return function(*args, **keywords)

        setattr(module, name, call_and_refuse)

    def watch_direct(name: str) -> None:
        function = getattr(time, name)

        def call_and_refuse(*args: Any) -> Any:
            # Libraries stamp their messages; what they compute rests on no clock.
            file = sys._getframe(1).f_code.co_filename
            if not _timeless and not file.startswith((*noted.libraries, "<")):
                noted.refuse_to_cache("reads the clock")
            return function(*args)

        setattr(time, name, call_and_refuse)

    seeded = set()

    def watch_seed(module: Any) -> None:
        function = module.seed

        def seed_and_note(*args: Any, **keywords: Any) -> Any:
            if args or keywords:
                seeded.add(module)
            return function(*args, **keywords)

        module.seed = seed_and_note

    watch_direct("time")
    watch_direct("time_ns")
    watch_function(os, "urandom", "draws unseeded random numbers")
    watch_function(random, "_urandom", "draws unseeded random numbers")
    before: list[list[Any]] = []

    def watch_draw(name: str, entry: list[Any]) -> None:
        function = getattr(random, name)

        def draw_and_note(*args: Any, **keywords: Any) -> Any:
            same = not _timeless and entry[1]() == entry[2] and noted.asking_frame() is None
            result = function(*args, **keywords)
            if same:  # no number that the program can have
                entry[2] = entry[1]()
            return result

        setattr(random, name, draw_and_note)

    for module, state in ((random, random.getstate), (np.random, _numpy_state)):
        before.append([module, state, state()])
        watch_seed(module)
    for name in ("random", "getrandbits", "randint", "randrange", "choice", "uniform"):
        watch_draw(name, before[0])

    def note_drawn() -> None:
        for module, state, was in before:
            if module not in seeded and state() != was:
                noted.not_kept.setdefault(f"{module.__name__} is used without a seed", "the global generator of")

    return note_drawn


def _numpy_state() -> Any:
    import numpy as np

    state: Any = np.random.get_state()
    kind, keys, *rest = state
    return kind, keys.tobytes(), rest
