"""Recording of actions that all processes must share: the programs started over all of them, in order, the values that
must be equal, the files written, and the exit. Only under `--processes`.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import inspect
import json
import os
import re
import sys
from typing import Any

from . import replicas
from .event_sink import silence_errors, write_event
from .frames import is_user, line_of, user_frame, user_line, user_stack

_LAUNCHES = 20000
_SAMPLED = 64
_POINTER = re.compile(r"\d{12,}")
_launches: list[int] = [0]
_runs: dict[int, int] = {}
_written: set[str] = set()
_log: list[Any] = []


def begin() -> None:
    """Watch the files this process opens to write, and how it ends, also without jax."""
    sys.addaudithook(_audit_open)
    atexit.register(_note_end)


def install(jax: Any) -> None:
    """Fill in what `jax.distributed.initialize` is not given, and watch each program that all processes start."""
    from jax._src import distributed, pjit
    from jax._src.interpreters import pxla

    distributed.State.initialize = _wrap_initialize(distributed.State.initialize)
    if hasattr(jax.config, "jax_cpu_collectives_implementation"):
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # The fast path of jax starts a program past Python from its second call on.
    if hasattr(pjit, "_get_fastpath_data"):
        pjit._get_fastpath_data = lambda *args, **kwargs: None
    call = pxla.ExecuteReplicated.__call__

    @functools.wraps(call)
    def launch_and_note(self: Any, *args: Any) -> Any:
        _note_launch(jax, self, args)
        return call(self, *args)

    pxla.ExecuteReplicated.__call__ = launch_and_note
    atexit.register(_note_end)


def _wrap_initialize(initialize: Any) -> Any:
    known = inspect.signature(initialize).parameters
    given = {
        "coordinator_address": os.environ["SHARDLINT_RUN_COORDINATOR"],
        "num_processes": int(os.environ["SHARDLINT_RUN_PROCESSES"]),
        "process_id": int(os.environ["SHARDLINT_RUN_PROCESS"]),
        "cluster_detection_method": "deactivate",
    }

    @functools.wraps(initialize)
    def initialize_with_defaults(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(initialize).bind(self, *args, **kwargs).arguments
        for name, value in given.items():
            if name in known and bound.get(name) is None:
                bound[name] = value
        write_event("initialize", line=user_line(), processes=bound.get("num_processes"))
        bound.pop("self", None)
        done = initialize(self, **bound)
        # After jax's own, so before it: that one waits for the other processes.
        atexit.register(_note_end)
        return done

    return initialize_with_defaults


@silence_errors
def _note_launch(jax: Any, executable: Any, args: Any) -> None:
    from jax._src import distributed

    if distributed.global_state.client is None or _launches[0] >= _LAUNCHES:
        return
    devices = list(getattr(executable, "_local_devices", ()) or ())
    count = getattr(executable.xla_executable, "local_devices", None)
    local = len(count()) if count is not None else len(devices)
    shardings = getattr(executable.out_handler, "out_shardings", ())
    every = max((len(getattr(one, "device_set", ())) for one in shardings), default=0)
    every = max(every, *(len(getattr(getattr(one, "sharding", None), "device_set", ())) for one in args), 0)
    if every <= local:
        return
    from .lowered_programs import executables

    known = executables.get(executable) or {}
    names = list(known.get("arguments", ()))
    number = _launches[0]
    _launches[0] += 1
    avals = [f"{getattr(one, 'dtype', '?')}{list(getattr(one, 'shape', ()))}" for one in args]
    _write_record(
        {"n": number, "name": known.get("name") or str(executable.name), "lines": user_stack(3),
         "program": known.get("digest", ""), "arguments": [
             [names[at] if at < len(names) else f"argument {at}", text] for at, text in enumerate(avals[:200])
         ]}
    )  # fmt: skip
    runs = _runs[id(executable)] = _runs.get(id(executable), 0) + 1
    if runs & (runs - 1) == 0:
        _note_largest_arguments(jax, number, names, args)


def _note_largest_arguments(jax: Any, number: int, names: list[str], args: Any) -> None:
    """Take down what each part of the largest arguments holds, by where in the array it lies."""
    largest = sorted(enumerate(args), key=lambda pair: -int(getattr(pair[1], "size", 0) or 0))[:_SAMPLED]
    from .first_runs import lines_placing_array

    held = []
    for at, one in largest:
        if not hasattr(one, "dtype") or not hasattr(one, "shape"):
            continue
        if jax.dtypes.issubdtype(one.dtype, jax.dtypes.prng_key):
            one = jax.random.key_data(one)
        sharding = getattr(one, "sharding", None)
        if sharding is not None and not getattr(one, "is_fully_addressable", True):
            shards = {str(shard.index): shard.data for shard in one.addressable_shards}
        elif sharding is None or len(sharding.device_set) == 1:
            shards = {"all": one}
        else:
            continue
        parts = {key: _digest_data(jax, data) for key, data in list(shards.items())[:8]}
        if all(parts.values()):
            name = names[at] if at < len(names) else f"argument {at}"
            held.append([name, f"{one.dtype}{list(one.shape)}", parts, lines_placing_array(one)])
    if held:
        _write_record({"n": number, "held": held})


def _digest_data(jax: Any, data: Any) -> str:
    """A digest of a sample, with "=" in front if all its numbers are the same; "" where it has none."""
    sample = replicas._sample_shard(jax, data)
    if sample is None:
        return ""
    constant = sample.size < 2 or bool((sample == sample[0]).all())
    return ("=" if constant else "") + hashlib.sha1(sample.tobytes()).hexdigest()[:16]


def digest_program(computation: Any) -> str:
    """Return a digest that is equal for equal programs."""
    text = "\n".join(
        _POINTER.sub("0", line) if "callback" in line else line
        for line in computation.as_text().splitlines()
        if not line.startswith("#loc")
    )
    return hashlib.sha1(text.encode()).hexdigest()[:16]


def _write_record(facts: dict[str, Any]) -> None:
    if not _log:
        place = os.path.join(os.environ["SHARDLINT_RUN_FOLDER"], "launches")  # noqa: PTH118
        os.makedirs(place, exist_ok=True)  # noqa: PTH103
        path = os.path.join(place, f"{os.getpid()}.jsonl")  # noqa: PTH118
        _log.append(open(path, "a", encoding="utf-8", buffering=1))  # noqa: PTH123, SIM115
    _log[0].write(json.dumps(facts, default=str) + "\n")


@silence_errors
def _note_end() -> None:
    error = getattr(sys, "last_value", None)
    # What explains it is written before jax waits for the others.
    tell = getattr(sys.modules.get("_shardlint_observe"), "tell", None)
    if error is not None and tell is not None:
        tell(error)
    last = None
    trace = getattr(error, "__traceback__", None)
    while trace is not None:
        if is_user(trace.tb_frame.f_code.co_filename):
            last = [*line_of(trace.tb_frame)[:1], trace.tb_lineno, line_of(trace.tb_frame)[2]]
        trace = trace.tb_next
    said = f"{type(error).__name__}: {error}"[:300] if error is not None else ""
    write_event("ended", said=said, line=last)


def _audit_open(event: str, args: Any) -> None:
    if event == "open":
        path, _, flags = args
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) and not flags & os.O_APPEND
        if writes and isinstance(path, str):
            _note_file(path)
    elif event == "os.rename" and isinstance(args[1], str):
        _note_file(args[1])


@silence_errors
def _note_file(path: str) -> None:
    if path in _written or len(_written) > 1000 or path.startswith("/dev/"):
        return
    _written.add(path)
    whole = os.path.realpath(path)
    folder = os.path.realpath(os.environ["SHARDLINT_RUN_FOLDER"])
    own = (os.path.dirname(folder), os.path.realpath(os.environ.get("SHARDLINT_RUN_RAISED", folder)))  # noqa: PTH120
    if whole.startswith(own) or "__pycache__" in whole or f"{os.sep}.cache{os.sep}" in whole:
        return
    frame = user_frame()
    if frame is not None and not _is_importing():
        write_event("file", path=whole, line=line_of(frame))


def _is_importing() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None and not is_user(frame.f_code.co_filename):
        if "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
