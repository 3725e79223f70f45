"""The jobs a child process can be given, and the messages it sends back.

A job is a dictionary with `task`, `devices`, `memory` (bytes or None), `seconds` and what the task
needs. Messages are dictionaries too; the last one of a job that ran to its end is `{"done": true}`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shardlint.verify.fixture import EXPLICIT
from shardlint.verify.report import SKIP, Result

Job = dict[str, Any]
Send = Callable[[dict[str, Any]], None]


def run(job: Job, send: Send) -> None:
    """Do one job in this process, whatever it raises."""
    from shardlint.verify.inside import devices, errors, heard

    heard.lead()
    try:
        send({"limits": devices.limit(job["memory"], job["seconds"], job["devices"])})
        devices.simulate(job["devices"])
        _TASKS[job["task"]](job, send)
        send({"done": True})
    except SystemExit as error:
        code = "" if error.code is None else errors.cut(errors.told(error.code, repr))
        send({"stopped": f"the program called sys.exit({code})"})
    except BaseException as error:  # a KeyboardInterrupt or MemoryError of the program's own
        send({"stopped": f"raised {type(error).__name__}: {errors.cut(errors.told(error))}"})
        errors.print_trace()
    errors.flush()


def _self_test(job: Job, send: Send) -> None:
    from shardlint.verify.inside.selftest import self_test

    caught, missed = self_test()
    send({"caught": caught, "missed": missed})


def _collect(job: Job, send: Send) -> None:
    from shardlint.verify.fixture import expand_meshes
    from shardlint.verify.inside import fixtures, load, place

    try:
        found = load.fixtures_from(Path(job["file"]))
    except Exception as error:
        send({"error": fixtures.raised(error).message})
        return
    listed = []
    for name, fixture in found.items():
        label = fixture.label().replace("<lambda>", name)
        one: dict[str, Any] = {"name": name, "label": label, "meshes": [], "error": None}
        one |= {"axis_types": fixture.axis_types, "processes": fixture.processes}
        one |= {"topology": list(fixture.topology), "execute": fixture.execute}
        try:
            one["meshes"] = expand_meshes(fixture, place.axes_named(fixture))
        except Exception as error:
            one["error"] = fixtures.raised(error).message
        listed.append(one)
    send({"fixtures": listed})


def _remembering(job: Job) -> None:
    """Let what the compiler answered before stand, where the job names a folder for it."""
    from shardlint.verify.inside import remember

    remember.memory.use(job.get("cache"))


def _fixture(job: Job, send: Send) -> None:
    """The levels of one process with simulated devices; one that raises leaves the next nothing to tell."""
    from shardlint.verify.inside import devices, fixtures, load

    emit = _emitter(send)
    for level, reason in job["skips"].items():
        emit(Result(job["label"], level, SKIP, job["mesh"], reason=reason))
    levels = job["levels"]
    if not levels:
        return
    _remembering(job)
    devices.compile_quickly()
    fixture = load.fixtures_from(Path(job["file"]))[job["name"]]
    if fixture.axis_types == EXPLICIT and (reason := devices.explicit_missing()):
        for level in levels:
            emit(Result(job["label"], level, SKIP, job["mesh"], reason=reason))
        return
    if "trace" in levels:
        from shardlint.verify.inside.trace import run_trace

        levels = [level for level in levels if level != "trace"]
        if not run_trace(fixture, job["mesh"], emit):
            for level in levels:
                emit(Result(job["label"], level, SKIP, job["mesh"], reason="level trace raised"))
            return
    if levels:
        fixtures.run_fixture(fixture, job["mesh"], levels, emit)


def _processes(job: Job, send: Send) -> None:
    from shardlint.verify.inside.conductor import conduct

    conduct(job, _emitter(send))


def _topology(job: Job, send: Send) -> None:
    from shardlint.verify.inside import load
    from shardlint.verify.inside.topology import run_topology

    _remembering(job)
    fixture = load.fixtures_from(Path(job["file"]))[job["name"]]
    run_topology(fixture, job["mesh"], job["topology"], _emitter(send))


def _proof(job: Job, send: Send) -> None:
    from shardlint.verify.inside.proofs import Program, run_program

    run_program(Program(**job["program"]), job["levels"], _emitter(send))


def _emitter(send: Send) -> Callable[[Result], None]:
    from shardlint.verify.inside import remember

    began = time.monotonic()

    def emit(result: Result) -> None:
        nonlocal began
        began, before = time.monotonic(), began
        result.seconds = began - before
        # Only of levels that compile: what runs, ran.
        result.cached = remember.memory.was_used() and result.level in ("compile", "topology")
        send({"result": asdict(result)})

    return emit


_TASKS: dict[str, Callable[[Job, Send], None]] = {
    "self_test": _self_test,
    "collect": _collect,
    "fixture": _fixture,
    "processes": _processes,
    "topology": _topology,
    "proof": _proof,
}
