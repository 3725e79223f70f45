"""Recording of the exception that ended a program under `shardlint run`: its frames, and the arguments of the failing
calls.

Loaded by its file at the end of a process that an exception ended (or when one ended a thread), so that nothing of
shardlint is on the program's path. jax removes its own frames from a traceback, and with them the arguments that they
hold: `watch_exceptions` notes those first.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any

_TEXT = 20_000
_FRAMES = 200
_CHAIN = 6
_INSIDE = 12
_NOTES = 4
# This file is run and not imported, so nothing else says where it lies.
_HERE = os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename))  # noqa: PTH100, PTH120
_ASIDE = os.path.join(os.path.dirname(_HERE), "observe")  # noqa: PTH118, PTH120
# jax's own, which repeat the exception they hang on.
_ECHOES = ("UnfilteredStackTrace", "SimplifiedTraceback", "JaxStackTraceBeforeTransformation")


def write(error: BaseException, path: str, thread: str = "", test: str = "") -> None:
    """Put down one exception as JSON, in a file of its own."""
    errors = [_describe_error(one) for one in _exception_chain(error)]
    data = {"thread": thread, "test": test, "errors": errors, "releases": _imported_releases()}
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        json.dump(data, file, default=str)
    os.replace(part, path)  # noqa: PTH105


def _exception_chain(error: Any) -> Any:
    """An exception and those it was raised from, the last raised first."""
    found: list[Any] = []
    waiting = [error]
    while waiting and len(found) < _CHAIN:
        one = waiting.pop(0)
        if one is None or any(one is other for other in found):
            continue
        if type(one).__name__ not in _ECHOES:
            found.append(one)
        after = one.__cause__ if one.__cause__ is not None or one.__suppress_context__ else one.__context__
        waiting += [*list(getattr(one, "exceptions", ()))[:3], after]
    return found


@functools.cache
def _load_arguments() -> Any:
    names = _load_file("arguments.py")
    names["layouts"].update(_load_file("leaves.py"))
    return names


def _load_file(name: str) -> Any:
    path = os.path.join(_HERE, name)  # noqa: PTH118
    names: dict[str, Any] = {"__name__": "shardlint_startup"}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        exec(compile(file.read(), path, "exec"), names)
    return names


_noted: dict[int, Any] = {}
"""Notes by the identity of the exception, which a later one may have: type and text tell them apart."""


def watch_exceptions() -> None:
    """Note what calls were given of an exception, whenever jax is about to remove its frames from the traceback."""
    from jax._src import traceback_util

    remove = traceback_util.filter_traceback

    def filter_traceback(tb: Any) -> Any:
        try:
            _note_calls(sys.exc_info()[1], tb)
        except Exception:  # the traceback is filtered without it
            _noted.clear()
        return remove(tb)

    traceback_util.filter_traceback = filter_traceback


def _note_calls(error: Any, tb: Any) -> None:
    """Note the calls of a whole traceback as data, which keeps no array."""
    entries = list(_walk_traceback(tb))
    caller = entries[0].tb_frame.f_back
    while caller is not None and not _is_own(caller.f_code.co_filename):
        caller = caller.f_back
    places = [(one.tb_frame, one.tb_lasti) for one in entries]
    if caller is not None:
        places.insert(0, (caller, caller.f_lasti))
    while len(_noted) >= _NOTES:
        del _noted[next(iter(_noted))]
    _noted[id(error)] = {
        "type": type(error),
        "text": _message_of(error),
        "calls": _calls_by_instruction(places),
        "inside": _library_frames(entries),
        "context": _load_arguments()["layouts"]["context_mesh"](),
    }


def _calls_by_instruction(places: Any) -> Any:
    """The call that each of the user's frames is in, by code and instruction."""
    found: dict[Any, Any] = {}
    above: list[Any] = []
    for at, (frame, instruction) in enumerate(places):
        if not _is_own(frame.f_code.co_filename):
            continue
        below = []
        for one, _ in places[at + 1 :]:
            below.append(one)
            if _is_own(one.f_code.co_filename):
                break
        try:
            found[id(frame.f_code), instruction] = _load_arguments()["call_of"](frame, instruction, below, above)
        except Exception:  # what is told of a failure must not be another
            continue
        finally:
            above.append(frame)
    return found


def _library_frames(entries: Any) -> Any:
    """The innermost functions of libraries, below the user's last line: their file, line and name."""
    found: list[Any] = []
    for one in entries:
        code = one.tb_frame.f_code
        found = [] if _is_own(code.co_filename) else [*found, [code.co_filename, one.tb_lineno, code.co_name]]
    return found[-_INSIDE:]


def _is_own(file: Any) -> Any:
    file = os.path.abspath(file) if not file.startswith("<") else file  # noqa: PTH100
    return not file.startswith(("<", _ASIDE, _HERE)) and "site-packages" not in file


def _describe_error(error: Any) -> Any:
    text = _message_of(error)
    entries = list(_walk_traceback(error.__traceback__))
    noted = _noted.get(id(error), {})
    noted = noted if (noted.get("type"), noted.get("text")) == (type(error), text) else {}
    calls = {**_calls_by_instruction([(one.tb_frame, one.tb_lasti) for one in entries]), **noted.get("calls", {})}
    return {
        "type": type(error).__name__,
        "module": type(error).__module__,
        "bases": [base.__name__ for base in type(error).__mro__],
        "message": text,
        "frames": [_describe_frame(tb, calls) for tb in entries[-_FRAMES:]],
        "inside": noted.get("inside") or _library_frames(entries),
        "context": noted.get("context"),
        "devices": _device_count(),
        "line": getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None,
    }


def _message_of(error: Any) -> str:
    try:
        return str(error)[:_TEXT]
    except Exception:
        return ""


def _device_count() -> Any:
    """The number of simulated devices: at the end of a process jax has none any more."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    counts = [flag.partition("=")[2] for flag in flags if "host_platform_device_count" in flag]
    return int(counts[-1]) if counts and counts[-1].isdigit() else 0


def _walk_traceback(tb: Any) -> Any:
    """The frames of a traceback, without those of what looks on: it stands between a call and what it calls."""
    while tb is not None:
        if not os.path.abspath(tb.tb_frame.f_code.co_filename).startswith(_ASIDE):  # noqa: PTH100
            yield tb
        tb = tb.tb_next


def _describe_frame(tb: Any, calls: Any) -> Any:
    code = tb.tb_frame.f_code
    end, call = calls.get((id(code), tb.tb_lasti), (None, None))
    return {
        "file": code.co_filename if code.co_filename.startswith("<") else os.path.abspath(code.co_filename),  # noqa: PTH100
        "line": tb.tb_lineno,
        "end": end or tb.tb_lineno,
        "function": code.co_name,
        "first": code.co_firstlineno,
        "call": call,
    }


def _imported_releases() -> Any:
    """The releases of what is imported."""
    names = ("jax", "jaxlib", "equinox", "flax", "haliax", "optax", "einshard")
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return {name: release for name, release in found.items() if isinstance(release, str)}
