"""The jobs a child process can be given, and the messages it sends back.

A job is a dictionary with `task`, `devices`, `memory` (bytes or None), `seconds` and what the task
needs. Messages are dictionaries too; the last one of a job that ran to its end is `{"done": true}`. What else
they may be is what `shardlint.verify.job_attendance` takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shardlint.verify import messages
from shardlint.verify.fixture import EXPLICIT, SINGLE_DEVICE, Fixture
from shardlint.verify.inside.failures import failure_from_exception
from shardlint.verify.report import SKIP, Result

Job = dict[str, Any]
Send = Callable[[dict[str, Any]], None]
Ask = Callable[[dict[str, Any]], dict[str, Any]]
Changed = Callable[[], str]


def run_job(job: Job, descriptor: int, mark: str, orders: int) -> None:
    """Do one job in this process, whatever it raises.

    Messages go to `descriptor` behind `mark`, the parent's answers come from `orders`.
    """
    from shardlint.verify.inside import captured_stderr, devices, errors, guard, reads

    captured_stderr.lead_process_group()
    known, changed = guard.prepare_guard()
    send = messages.message_sender(descriptor, mark, known)
    ask = messages.message_asker(send, orders)
    try:
        send({"limits": devices.limit_process(job["memory"], job["seconds"], job["devices"])})
        devices.simulate_devices(job["devices"])
        told = reads.begin_noting(_own_folders(job)) if job.get("keep") else None
        _TASKS[job["task"]](job, send, ask, changed)
        if told is not None:
            send({"reads": told()})
        send({"done": True})
    except SystemExit as error:
        send({"stopped": f"the program called sys.exit({errors.exit_code(error)})"})
    except BaseException as error:  # a KeyboardInterrupt or MemoryError of the program's own
        send({"stopped": f"raised {type(error).__name__}: {errors.cut_text(errors.safe_text(error))}"})
        errors.print_trace()
    errors.flush_output()


def _own_folders(job: Job) -> tuple[str, ...]:
    """The folders in which the verifier and jax keep what they read again; no program computes with that."""
    found = [job.get("folder"), job.get("cache"), os.environ.get("JAX_COMPILATION_CACHE_DIR")]
    return tuple(folder for folder in found if folder)


def _self_test(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    from shardlint.verify.inside.selftest import self_test

    caught, missed = self_test()
    send({"caught": caught, "missed": missed})


def _collect_fixtures(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    from shardlint.verify.fixture import expand_meshes
    from shardlint.verify.inside import load, placed_arguments

    try:
        found = load.fixtures_from(Path(job["file"]))
    except Exception as error:
        send({"error": failure_from_exception(error).message})
        return
    listed = []
    for name, fixture in found.items():
        label = fixture.function_label().replace("<lambda>", name)
        one: dict[str, Any] = {"name": name, "label": label, "meshes": [], "error": None}
        one |= {"axis_types": fixture.axis_types, "processes": fixture.processes}
        one |= {"topology": list(fixture.topology), "execute": fixture.execute}
        one["reference"] = _kind_of(fixture.reference)
        try:
            one["meshes"] = expand_meshes(fixture, placed_arguments.axes_named(fixture))
        except Exception as error:
            one["error"] = failure_from_exception(error).message
        listed.append(one)
    send({"fixtures": listed})


def _kind_of(reference: Any) -> str:
    """Return the kind of reference for the numbers: the function `itself` on one device, an `other`, or nothing."""
    return "" if reference is None else "itself" if reference == SINGLE_DEVICE else "other"


def _run_on_one_device(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    from shardlint.verify.inside import devices
    from shardlint.verify.inside.single_device_run import run_alone
    devices.compile_quickly()
    try:
        fixture = _load_fixture(job, send)
    except Exception as error:
        told: dict[str, Any] = {"unmade": failure_from_exception(error).message}
    else:
        told = run_alone(fixture, job["mesh"], Path(job["folder"]))
    if name := changed():
        send({"distrust": _CHANGED.format(name)})
    send({"alone": told})


def _run_fixture(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    """The levels of one process with simulated devices; one that raises leaves the next nothing to tell."""
    from shardlint.verify.inside import devices, fixtures, program_cache
    from shardlint.verify.inside.coverage import Coverage
    from shardlint.verify.inside.single_device_run import ReferenceRun

    emit = _make_emitter(send, changed)
    for level, reason in job["skips"].items():
        emit(Result(job["label"], level, SKIP, job["mesh"], reason=reason))
    levels = job["levels"]
    if not levels:
        return
    # What the compiler answered before stands, where the job names a folder for it.
    program_cache.memory.use_folder(job.get("cache"), ask, send)
    devices.compile_quickly()
    # Before the program is imported, which could write there.
    alone = ReferenceRun.read_result(job["alone"], Path(job["folder"])) if "alone" in job else None
    fixture = _load_fixture(job, send)
    if job.get("moved") and fixture.context == "with":
        fixture = replace(fixture, context="set_mesh")
    emit = _make_emitter(send, changed, fixture)
    if fixture.axis_types == EXPLICIT and (reason := devices.reason_explicit_missing()):
        for level in levels:
            emit(Result(job["label"], level, SKIP, job["mesh"], reason=reason))
        levels = []
    coverage = Coverage(fixture, levels, job["skips"], job.get("elsewhere", ()))
    if "trace" in levels:
        from shardlint.verify.inside.trace import run_trace

        levels = [level for level in levels if level != "trace"]
        if not run_trace(fixture, job["mesh"], emit, coverage):
            for level in levels:
                emit(Result(job["label"], level, SKIP, job["mesh"], reason="level trace raised"))
            levels = []
    if levels:
        fixtures.run_fixture(fixture, job["mesh"], levels, emit, coverage, alone, bool(job.get("sketch")))
    _prove_checks(job, send, ask, changed)


def _load_fixture(job: Job, send: Send) -> Fixture:
    """The fixture of a job. Tells what function it is of, for who has to say where a program stopped."""
    from shardlint.verify.inside import load

    fixture = load.fixture_named(Path(job["file"]), job["name"], job.get("digest"))
    # What a reference names is not imported yet, and whether it can be is for the levels to tell.
    send({"of": fixture.fn if isinstance(fixture.fn, str) else load.place_of(fixture.fn)})
    return fixture


def _prove_checks(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    """Have the checks show, after the program has run, that they still tell faulty programs from sound ones."""
    from shardlint.verify.inside import selftest

    answers = selftest.challenge_answers(str(ask({"judged": True}).get("seed")), job["devices"])
    if name := changed():
        send({"distrust": _CHANGED.format(name)})
    send({"answers": answers})


def _run_processes(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    from shardlint.verify.inside.coordinator import conduct_processes

    conduct_processes(job, _make_emitter(send, changed))


def _run_topology(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    from shardlint.verify.inside import program_cache
    from shardlint.verify.inside.topology import run_topology

    program_cache.memory.use_folder(job.get("cache"), ask, send)
    fixture = _load_fixture(job, send)
    run_topology(fixture, job["mesh"], job["topology"], _make_emitter(send, changed, fixture))
    _prove_checks(job, send, ask, changed)


def _run_proof(job: Job, send: Send, ask: Ask, changed: Changed) -> None:
    from shardlint.verify.inside.proofs import Program, run_program

    run_program(Program(**job["program"]), job["levels"], _make_emitter(send, changed))


_CHANGED = "the program replaced {}, which the checks need"


def _make_emitter(send: Send, changed: Changed, fixture: Fixture | None = None) -> Callable[[Result], None]:
    from shardlint.verify.inside import load, program_cache

    declared_now, data_of = load.declared_text, asdict
    began, declared = time.monotonic(), declared_now(fixture)

    def emit_result(result: Result) -> None:
        nonlocal began
        began, before = time.monotonic(), began
        result.seconds = began - before
        # Only of levels that compile: what runs, ran.
        result.cached = program_cache.memory.was_used() and result.level in ("compile", "topology")
        if name := changed():
            send({"distrust": _CHANGED.format(name)})
        if declared_now(fixture) != declared:
            send({"distrust": "the program changed the declarations of its fixture while it ran"})
        send({"result": data_of(result)})

    return emit_result


_TASKS: dict[str, Callable[[Job, Send, Ask, Changed], None]] = {
    "self_test": _self_test,
    "collect": _collect_fixtures,
    "alone": _run_on_one_device,
    "fixture": _run_fixture,
    "processes": _run_processes,
    "topology": _run_topology,
    "proof": _run_proof,
}
