"""Comparison of the processes of one program, which must do the same, in the same order, with the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlint.run.findings import RunFinding
from shardlint.run.launches import Launch, read_launches
from shardlint.run.observed.events import Events, first_line, function_of_place, make_line
from shardlint.run.processes import FinishedProcesses
from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Line

_INDEX = "jax.process_index()"
# What sockets, gloo and jax's coordination service say of a peer that did not come, or went.
_WAITED = compile_lazily(
    r"(?i)gloo|deadline|timed? ?out|heartbeat|barrier|connection (closed|reset|refused|aborted)|broken pipe"
    r"|unavailable|peer|another task died|coordination service|shutdown barrier"
)


def compare_processes(finished: FinishedProcesses, events: Sequence[Events]) -> tuple[list[RunFinding], list[str]]:
    """The findings about what the processes did differently, and what a reader must know."""
    count = len(finished.processes)
    joined = [any(each.events_of_kind("initialize")) for each in events]
    if not any(joined):
        return [*_find_hangs(finished, events)], [
            f"nothing is compared: the program never calls jax.distributed.initialize(), so the {count} "
            "processes run independently"
        ]
    started = [read_launches(one.folder) for one in finished.processes]
    notes = []
    if not all(joined):
        alone = ", ".join(str(at) for at, one in enumerate(joined) if not one)
        notes.append(f"process {alone} has not called jax.distributed.initialize()")
    notes += _find_fixed_sizes(events, count)
    found = [*_find_raised(finished, events)]
    found += _find_order_difference(finished, started, bool(found))
    if not found:
        found += _find_hangs(finished, events)
    found += _find_value_differences(started)
    found += _find_equal_rows(started)
    found += _find_shared_files(events)
    return found, notes


def _find_fixed_sizes(events: Sequence[Events], count: int) -> Iterator[str]:
    """Programs that are told a number of processes by themselves."""
    for passed in {one.get("processes") for each in events for one in each.events_of_kind("initialize")}:
        if passed is not None and passed != count:
            yield f"{count} processes were started, but the program passes {passed} to jax.distributed.initialize"


def _exceptions_by_process(events: Sequence[Events]) -> list[dict[str, Any] | None]:
    """Return the exception that each process raised at its end; None if it raised none."""
    return [next((one for one in each.events_of_kind("ended") if one["said"]), None) for each in events]


def _gave_up(told: dict[str, Any]) -> bool:
    """Return whether an exception says that another process did not come, or left. It is no cause by itself."""
    return _WAITED.search(told["said"].splitlines()[0]) is not None


def _find_raised(finished: FinishedProcesses, events: Sequence[Events]) -> Iterator[RunFinding]:
    """One process raised, and others that did not were left waiting, until they gave up or were killed."""
    said = _exceptions_by_process(events)
    own = [at for at, told in enumerate(said) if told is not None and not _gave_up(told)]
    others = [at for at in range(len(said)) if at not in own and (finished.processes[at].killed or said[at])]
    if not own or not others:
        return
    told = said[own[0]] or {}
    rest = "; ".join(_describe_wait(at, finished, said[at]) for at in others)
    yield RunFinding(
        "one-process-raised", function_of_place(told["line"]), make_line(told["line"]),
        f"process {own[0]} raises {told['said'].splitlines()[0]}, and the others wait for it: {rest}",
        advice="make all processes raise if one has to: "
        "if multihost_utils.process_allgather(failed).any(): raise ...",
    )  # fmt: skip


def _find_hangs(finished: FinishedProcesses, events: Sequence[Events]) -> Iterator[RunFinding]:
    """Processes that wait for each other, or for what never comes: where each of them stands."""
    said = _exceptions_by_process(events)
    gave_up = [at for at, told in enumerate(said) if told is not None and _gave_up(told)]
    killed = [at for at, one in enumerate(finished.processes) if one.killed]
    if not gave_up and not (
        killed and (finished.why in ("stuck", "idle") or (finished.why == "time" and finished.idle))
    ):
        return
    waiting = sorted({*gave_up, *killed})
    places = {at: make_line(one["line"]) if (one := said[at]) else finished.processes[at].at for at in waiting}
    texts = [_describe_wait(at, finished, said[at]) for at in waiting]
    texts += [f"process {at} had already finished" for at in range(len(said)) if at not in places]
    known = [at for at in waiting if places[at].file]
    place = places[known[0]] if known else Line()
    yield RunFinding(
        "hang", place.function.replace("<module>", "the program") or "the program", place,
        "the processes wait for each other forever: " + "; ".join(texts),
        advice="every process must reach the same barriers, collectives and messages in the same order: look "
        "for one that only some reach (under a condition on the process index, in a longer loop, for a peer "
        "that is not started)",
        see=tuple((f"process {at}", places[at]) for at in known[1:]),
    )  # fmt: skip


def _describe_wait(at: int, finished: FinishedProcesses, told: dict[str, Any] | None) -> str:
    """Where a process waited, and how that ended."""
    one = finished.processes[at]
    if told is not None:
        where = make_line(told["line"])
        return (
            f"process {at} waited"
            + (f" at {Path(where.file).name}:{where.line}" if where.file else "")
            + (f" until it gave up ({told['said'].splitlines()[0][:120]})")
        )
    return f"process {at} waited" + (f" at {one.line}" if one.line else "") + " until it was killed"


def _find_order_difference(
    finished: FinishedProcesses, started: list[list[Launch]], explained: bool
) -> Iterator[RunFinding]:
    """The first place where a process started something else than process 0 did."""
    for other in range(1, len(started)):
        one, two = started[0], started[other]
        for mine, theirs in zip(one, two, strict=False):
            if (mine.program, mine.name) != (theirs.program, theirs.name):
                yield _make_difference_finding(mine, theirs, other)
                return
        if len(one) != len(two) and not explained:
            more, less = (0, other) if len(one) > len(two) else (other, 0)
            yield _make_ahead_finding(finished, started, more, less)
            return


def _make_difference_finding(mine: Launch, theirs: Launch, other: int) -> RunFinding:
    """Two processes started different programs where they should have started one."""
    if mine.name == theirs.name and mine.user_line.line == theirs.user_line.line:
        parts = [
            f"{a[0]}: {a[1]} on process 0, {b[1]} on process {other}"
            for a, b in zip(mine.arguments, theirs.arguments, strict=False)
            if a[1] != b[1]
        ]
        return RunFinding(
            "other-program", mine.name, mine.user_line,
            f"processes 0 and {other} compiled different programs for this call"
            + ("" if parts else (
                ": the shapes of the arguments are equal, and a Python value that tracing reads "
                "differs"
            )),
            tuple(parts),
            advice="give all processes the same static arguments, Python numbers and closures: none from "
            f"`{_INDEX}`, the time or the data of one process",
        )  # fmt: skip
    return RunFinding(
        "other-order", mine.name, mine.user_line,
        f"the processes run programs in different orders: process 0 starts `{mine.name}` here, and process "
        f"{other} starts `{theirs.name}`",
        advice=f"call both on every process, in the same order; put only host work under `if {_INDEX} == 0`",
        code="SL809",
        see=((f"process {other}", theirs.user_line),),
    )  # fmt: skip


def _make_ahead_finding(finished: FinishedProcesses, started: list[list[Launch]], more: int, less: int) -> RunFinding:
    """One process started a program that another never did."""
    extra = started[more][len(started[less])]
    behind = finished.processes[less]
    stood = f"was at {behind.line}" if behind.line else "had finished"
    waits = finished.processes[more]
    end = f"waited at {waits.line}" if waits.killed and waits.line else "continued without it"
    return RunFinding(
        "missing-process", extra.name, extra.user_line,
        f"only process {more} starts `{extra.name}`, a program over all processes: process {more} {end}, "
        f"process {less} {stood} ({len(started[more])} programs against {len(started[less])})",
        advice="call it on every process, with the same number of steps; put only host work with the result "
        f"under `if {_INDEX} == 0`",
        code="SL809",
    )  # fmt: skip


def _pair_launches(started: list[list[Launch]]) -> Iterator[tuple[int, Launch, Launch]]:
    """Yield the launches that process 0 shares with each other process, up to the first in which they differ."""
    for other in range(1, len(started)):
        for mine, theirs in zip(started[0], started[other], strict=False):
            if (mine.program, mine.name) != (theirs.program, theirs.name):
                break
            yield other, mine, theirs


def _find_value_differences(started: list[list[Launch]]) -> Iterator[RunFinding]:
    """Arguments of which processes hold different copies of the same part."""
    for other, mine, theirs in _pair_launches(started):
        here = {one[0]: one for one in theirs.held}
        parts = [
            f"{name} {text}"
            for name, text, hashes, _ in mine.held
            if name in here
            and any(hashes[key] != here[name][2][key] for key in hashes.keys() & here[name][2].keys())
        ]
        if parts:
            yield RunFinding(
                "not-equal", mine.name, mine.user_line,
                f"processes 0 and {other} compute with different values: "
                f"{'an argument' if len(parts) == 1 else f'{len(parts)} arguments'} of `{mine.name}` must "
                "be equal on all processes, and jax does not check this",
                tuple(parts),
                advice="make the value from the same seed on every process, or write "
                "multihost_utils.broadcast_one_to_all(value)",
                code="SL806" if any("key" in part for part in parts) else "",
            )  # fmt: skip
            return  # what is computed from it differs as well


def _find_equal_rows(started: list[list[Launch]]) -> Iterator[RunFinding]:
    """Arguments that are split between processes, of which two hold the same numbers: a batch that all read alike."""
    for other, mine, theirs in _pair_launches(started):
        there = {one[0]: one[2] for one in theirs.held}
        equal = [one for one in mine.held if _has_equal_parts(one[2], there.get(one[0], {}))]
        if equal:
            parts = [f"{name} {text}" for name, text, _, _ in equal]
            made = next((first_line(lines) for *_, lines in equal if lines), mine.user_line)
            yield RunFinding(
                "same-rows", mine.name, made,
                f"processes 0 and {other} hold the same rows of {parts[0]}: `{mine.name}` takes it sharded between "
                "the processes, so each row counts several times",
                tuple(parts[:6]),
                advice=f"give each process its own rows: seed the loader with {_INDEX}, or select by it",
                see=(("called", mine.user_line),),
            )  # fmt: skip
            return


def _has_equal_parts(mine: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Return whether two processes hold other regions of an array, and the same numbers in them."""
    if not mine or mine.keys() & theirs.keys() or any(digest.startswith("=") for digest in mine.values()):
        return False
    return sorted(mine.values()) == sorted(theirs.values())


def _find_shared_files(events: Sequence[Events]) -> Iterator[RunFinding]:
    """Files that more than one process opened to write."""
    wrote: dict[str, dict[int, Any]] = {}
    for at, each in enumerate(events):
        for one in each.events_of_kind("file"):
            wrote.setdefault(one["path"], {})[at] = one["line"]
    lines: dict[tuple[str, int], list[str]] = {}
    for path, by in wrote.items():
        if len(by) > 1:
            place = next(iter(by.values()))
            lines.setdefault((place[0], place[1]), []).append(path)
    for paths in lines.values():
        by = wrote[paths[0]]
        place = by[min(by)]
        yield RunFinding(
            "same-file", function_of_place(place), make_line(place),
            f"{len(by)} processes write the same file here: the last one wins, or their output is mixed",
            tuple(paths),
            advice="write it under `if jax.process_index() == 0:`, or put the process index into its name",
            code="SL814",
        )  # fmt: skip
