"""A process that has imported jax and what tests use beside it, and forks a program for each request.

It creates no backend, for threads do not survive a fork: each program makes its own, by the XLA_FLAGS of its request.
Requests come as lines of JSON on standard input, answers (the exit code) go out the same way.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

MODULES = (
    "jax.numpy",
    "jax.experimental.shard_map",
    "jax.experimental.mesh_utils",
    "optax",
    "equinox",
    "flax.nnx",
    "flax.linen",
)
MEMORY = 16 * 2**30


def serve() -> None:
    """Answer requests until standard input ends."""
    for name in MODULES:
        # A release that jax does not go with may raise anything; the programs that use it say so.
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that forking threads is dangerous; jax has started none yet
            pid = os.fork()
        if pid == 0:
            _become(request)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it left
        answers.write(json.dumps(os.waitstatus_to_exitcode(status)).encode() + b"\n")
        answers.flush()


def _become(request: dict[str, Any]) -> None:
    """The rest of a child's life: runs the program and ends as a Python process would."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(request["seconds"])
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        for path, descriptor, flags in (
            (os.devnull, 0, os.O_RDONLY),
            (request["out"], 1, os.O_WRONLY),
            (request["err"], 2, os.O_WRONLY),
        ):
            os.dup2(os.open(path, flags), descriptor)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        _configure()
        code = _run(request["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _configure() -> None:
    """Give jax the options that it reads from the environment when it is imported."""
    config = sys.modules["jax"].config
    for name, text in os.environ.items():
        if name.startswith("JAX_") and hasattr(config, name.lower()):
            kind = type(getattr(config, name.lower()))
            config.update(name.lower(), text.lower() in ("1", "true") if kind is bool else text)


def _run(arguments: list[str]) -> int:
    """Run a file with arguments, or `-c` with a text; the exit code."""
    try:
        try:
            if arguments[0] == "-c":
                sys.argv[:] = ["-c", *arguments[2:]]
                sys.path.insert(0, "")
                module = sys.modules["__main__"] = types.ModuleType("__main__")
                exec(compile(arguments[1], "<string>", "exec"), module.__dict__)
            else:
                sys.argv[:] = arguments
                sys.path.insert(0, str(Path(arguments[0]).absolute().parent))
                runpy.run_path(arguments[0], run_name="__main__")
        finally:
            atexit._run_exitfuncs()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.path.pop(0)
    serve()
