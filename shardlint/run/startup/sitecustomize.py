"""Runs first in each Python process of a program under `shardlint run`.

The compiler's flags come through the environment, and that is enough for most programs. This file is for
those that set XLA_FLAGS themselves, which replaces what was there, and it gives each process a folder
of its own, so that a function compiled by eight workers is not taken for one compiled eight times. It
must not fail, print or be seen: it takes itself off the path and hands over to the sitecustomize behind it.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    import types
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib costs an import
_DEVICES = "--xla_force_host_platform_device_count="


def _flags_with_ours(value: str) -> str:
    """The flags in `value` with those of the run behind them: of two the compiler takes the last."""
    folder = os.environ["SHARDLINT_RUN_FOLDER"]
    ours = os.environ["SHARDLINT_RUN_FLAGS"].split()
    dump = f"--xla_dump_to={folder}"
    flags = [flag for flag in value.split() if flag not in ours and not flag.startswith(dump)]
    # How many devices is the program's own word, unless the command was told.
    default = os.environ.get("SHARDLINT_RUN_DEVICES")
    if default and not any(flag.startswith(_DEVICES) for flag in (*flags, *ours)):
        flags.append(_DEVICES + default)
    return " ".join([*flags, *ours, f"{dump}{os.sep}{os.getpid()}"])


def _write_exception(error: BaseException | None, thread: str = "", test: str = "") -> None:
    """Write the exception that ended the process, a thread or a test, with its arrays, which only this process has."""
    if isinstance(error, Exception) and "SHARDLINT_RUN_RAISED" in os.environ:
        try:
            folder = os.environ["SHARDLINT_RUN_RAISED"]
            name = f"{os.getpid()}-test-{len(os.listdir(folder))}" if test else f"{os.getpid()}-{thread}".rstrip("-")  # noqa: PTH208
            _load_raised()["write"](error, os.path.join(folder, f"{name}.json"), thread, test)  # noqa: PTH118
        except Exception:  # the traceback is there without it
            return


def _load_raised() -> "dict[str, Any]":
    """Return the names of `raised.py`, of which a process has one: what it noted is needed at the end."""
    if not _loaded:
        _loaded.update(_load_beside("exception_record.py"))
    return _loaded


_loaded: "dict[str, Any]" = {}


def _load_beside(name: str) -> "dict[str, Any]":
    """Return the names defined by a file next to this one, which is on no path."""
    path = os.path.join(_HERE, name)  # noqa: PTH118
    found: dict[str, Any] = {"__name__": "shardlint_startup"}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        exec(compile(file.read(), path, "exec"), found)
    return found


def _watch_exceptions() -> None:
    import atexit
    import threading

    def note_thread_exception(given: "threading.ExceptHookArgs") -> None:
        _hide_observers(given.exc_value)
        printed(given)
        _write_exception(given.exc_value, str(given.thread.ident if given.thread else 0))

    def print_users(kind: type[BaseException], error: BaseException, traceback: "types.TracebackType | None") -> None:
        _hide_observers(error)
        printed_last(kind, error, traceback)

    # Python itself keeps here what it prints at the end, whoever prints it.
    atexit.register(lambda: _write_exception(getattr(sys, "last_value", None)))
    printed, threading.excepthook = threading.excepthook, note_thread_exception
    printed_last, sys.excepthook = sys.excepthook, print_users


def _hide_before_init(kind: "Any", error_of: "Any") -> None:
    """Hide the observers in the traceback of the exception from which an object of a class is made."""
    begin = kind.__init__

    def begin_hidden(one: "Any", *args: "Any", **kwargs: "Any") -> None:
        _hide_observers(error_of(*args, **kwargs))
        begin(one, *args, **kwargs)

    kind.__init__ = begin_hidden


def _hide_when_formatted(module: "Any") -> None:
    """Hide the observers in what the program itself prints of a traceback, or logs."""
    _hide_before_init(module.TracebackException, lambda exc_type, exc_value, *_, **__: exc_value)


def _hide_from_pytest(module: "Any") -> None:
    """Hide the observers in the tracebacks that pytest prints: it formats them by itself."""
    _hide_before_init(module.ExceptionInfo, lambda excinfo, *_, **__: excinfo[1] if excinfo is not None else None)


def _hidden_folders() -> tuple[str, ...]:
    """The folders of the code that observes the program."""
    folders = (_HERE, os.environ.get("SHARDLINT_RUN_OBSERVE"))
    return tuple(folder + os.sep for folder in folders if folder)


def _hide_observers(error: BaseException | None) -> None:
    """Remove the frames of the functions that observe the program from a traceback, and from those it was raised from.
    """
    folders = _hidden_folders()
    waiting, known = [error], set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in known:
            continue
        known.add(id(one))
        entry = one.__traceback__
        while entry is not None:
            below = entry.tb_next
            if below is not None and below.tb_frame.f_code.co_filename.startswith(folders):
                entry.tb_next = below.tb_next
            else:
                entry = below
        waiting += [one.__cause__, one.__context__]


def _begin_observing() -> None:
    class Environ(type(os.environ)):  # type: ignore[misc]
        def __setitem__(self, key: str, value: str) -> None:
            if key == "XLA_FLAGS" and "SHARDLINT_RUN_FLAGS" in self:
                value = _flags_with_ours(value)
            super().__setitem__(key, value)

    def renew_flags() -> None:
        if "XLA_FLAGS" in os.environ:
            os.environ["XLA_FLAGS"] = os.environ["XLA_FLAGS"]

    def listen_for_signal() -> None:
        # At the time limit it is asked where it stands.
        path = os.path.join(os.environ["SHARDLINT_RUN_STACKS"], str(os.getpid()))  # noqa: PTH118
        files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        faulthandler.register(int(os.environ["SHARDLINT_RUN_ASKED"]), files[-1], all_threads=True)

    def load_observers() -> None:
        import importlib.util

        file = os.path.join(os.environ["SHARDLINT_RUN_OBSERVE"], "__init__.py")  # noqa: PTH118
        spec = importlib.util.spec_from_file_location("_shardlint_observe", file)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules["_shardlint_observe"] = module
            spec.loader.exec_module(module)
            vars(module)["tell"] = _write_exception
            module.begin()
            module.imports.when("traceback", _hide_when_formatted)
            module.imports.when("_pytest._code.code", _hide_from_pytest)
            module.imports.when(
                "jax._src.traceback_util", lambda of: [of.register_exclusion(folder) for folder in _hidden_folders()]
            )
            if "SHARDLINT_RUN_RAISED" in os.environ:
                module.imports.when("jax._src.traceback_util", lambda _: _load_raised()["watch_exceptions"]())

    Environ.__name__ = Environ.__qualname__ = type(os.environ).__name__
    os.environ.__class__ = Environ
    renew_flags()
    if "SHARDLINT_RUN_OBSERVE" in os.environ:
        load_observers()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew_flags)
    if "SHARDLINT_RUN_RECORD" in os.environ:
        begin = _load_beside("first_call_code.py")["begin"]
        beside = (
            _load_beside(f"{name}.py")
            for name in ("module_recipes", "value_code", "factories", "returned_arrays", "arrivals")
        )
        begin(os.environ["SHARDLINT_RUN_RECORD"], *beside)
    _watch_exceptions()
    if "SHARDLINT_RUN_STACKS" in os.environ:
        import faulthandler

        files: list[int] = []
        listen_for_signal()
        os.register_at_fork(after_in_child=listen_for_signal)


def _hand_over() -> None:
    sys.path[:] = [path for path in sys.path if path != _HERE]
    this = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # The import that runs this file looks for it when it is done.
        if this is not None:
            sys.modules.setdefault("sitecustomize", this)


if "SHARDLINT_RUN_FLAGS" in os.environ:
    try:
        _begin_observing()
    except Exception:  # a program that is not watched is better than one that does not run
        os.environ.pop("SHARDLINT_RUN_FLAGS", None)
_hand_over()
