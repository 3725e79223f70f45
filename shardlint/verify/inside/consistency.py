"""Consistency checks between the processes of one program: the same arrays, the same program, the same numbers in
replicas. The module does not import jax.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlint.verify.inside import programs
from shardlint.verify.report import Failure

Holding = Mapping[str, Any]


def compare_before_run(ready: Sequence[Mapping[str, Any]], folder: Path) -> tuple[list[Failure], int]:
    """Return the differences between the processes before anything runs, and the count of compared arrays and
    programs.
    """
    args = [one["args"] for one in ready]
    why = "; each process made its own: use the same seed, or broadcast it from one process"
    failures, count = compare_held_arrays(args, why)
    if failures or not ready[0]["program"]:
        return failures, count
    for index, one in enumerate(ready):
        if one["program"] != ready[0]["program"]:
            return [_differing_programs(folder, index)], count + 1
    return [], count + 1


def _differing_programs(folder: Path, index: int) -> Failure:
    mine, yours, place, other = programs.find_difference(folder / "program0", folder / f"program{index}")
    message = (
        f"processes 0 and {index} would run different programs, and hang or compute wrong numbers; they were "
        "not run. The first line that differs:"
    )
    for number, text, where in ((0, mine, place), (index, yours, other)):
        shown = f" (at {where})" if where else ""
        message += f"\nprocess {number}: {_shorten_text(text) or '(its program ends)'}{shown}"
    return Failure("program", message)


def _shorten_text(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


Call = Mapping[str, Any]
"""A call of a program that all processes are to make: `name`, `line` (the user's), `program` (its digest), `talks`
(whether its devices exchange anything), `host` (type and digest of what it was given that one process alone has) and
`of` (the arrays all have a part of, by what they were made of; `names` as a person writes them)."""


def first_call_difference(calls: Sequence[Sequence[Sequence[str]]]) -> str:
    """The first call in which the programs that processes ran one after another differ, as a sentence.

    A call is the name of a program and the user's line.
    """
    found = _first_differing_call(
        [[{"name": name, "line": line} for name, line in one] for one in calls], ("name", "line")
    )
    return f"the first difference between their programs is {found[1]}" if found else ""


def _first_differing_call(
    calls: Sequence[Sequence[Call]], keys: Sequence[str]
) -> tuple[list[Call], str, int] | None:
    """The first call in which processes differ: of process 0 and of another, both as text, and which other it is."""
    for number, ones in enumerate(itertools.zip_longest(*calls, fillvalue={}), 1):
        for index, one in enumerate(ones):
            if any(one.get(key) != ones[0].get(key) for key in keys):
                both = f"{_describe_call(0, ones[0])}, {_describe_call(index, one)}"
                return [ones[0], one], f"program {number}: {both}", index
    return None


def _describe_call(index: int, call: Call) -> str:
    if not call:
        return f"process {index} ran no other program"
    names = [name for name in call.get("names", ()) if name]
    on = f" on {', '.join(names)}" if 0 < len(names) <= 4 else ""
    return f"process {index} ran {call['name']}{on} at {call['line'] or '?'}"


_DOES = ("name", "program", "host", "of")


def compare_calls(
    calls: Sequence[Sequence[Call]], made: Sequence[Sequence[str]]
) -> tuple[Failure | None, str]:
    """Return the inconsistency of the calls that processes made together (None: there is none), and a note.

    They must be of the same programs, with the same numbers from the host, on the same arrays. One that processes do
    alone does no harm where its devices exchange nothing and no result comes of it; `made` is what results are made of.
    """
    found = _first_differing_call(calls, _DOES)
    if found is None:
        return None, ""
    (mine, other), text, index = found
    where = str(other.get("line") or mine.get("line") or "")
    alike = mine.get("name") == other.get("name") and mine.get("program") == other.get("program")
    for one, another in zip(mine.get("host", ()), other.get("host", ()), strict=False):
        if alike and one != another:
            message = (
                f"processes 0 and {index} passed different host values as {mine['name']}, which jax treats as "
                "equal on all: make them from one seed, or broadcast them from one process"
            )
            return Failure("replicas", message, where, array=str(another[0])), ""
    sets = [Counter(_call_key(call) for call in one) for one in calls]
    talks = any(
        call["talks"] for one in calls for call in one if any(_call_key(call) not in other for other in sets)
    )
    if not talks and all(one == made[0] for one in made):
        return None, f"the processes run different programs, without harm here: {text}"
    inside = ", which computes something else" if _alike_but_program(mine, other) else ""
    message = f"the processes ran different programs; the first that differs is {text}{inside}"
    return Failure("program", message, where), ""


def _alike_but_program(mine: Call, other: Call) -> bool:
    """Return whether two calls differ only in the compiled program: in a number from the host in it, or in an order."""
    return all(mine.get(key) == other.get(key) for key in _DOES if key != "program")


def _call_key(call: Call) -> str:
    return repr([call[key] for key in _DOES])


def compare_after_run(results: Sequence[Mapping[str, Any]], order: str) -> tuple[list[Failure], int]:
    """Return the inconsistencies of the results, and the count of compared arrays. `order` is the sentence of
    `order`.
    """
    failures, count = compare_held_arrays([one["out"] for one in results], f"; {order}" if order else "")
    if failures:
        return failures, count
    told: dict[tuple[str, str], list[int]] = {}
    for index, one in enumerate(results):
        for failure in one["failures"]:
            found = Failure(**failure)
            told.setdefault((found.kind, found.failure_text()), []).append(index)
            if told[found.kind, found.failure_text()] == [index]:
                failures.append(found)
    for failure in failures:
        indexes = told[failure.kind, failure.failure_text()]
        if len(indexes) < len(results):
            failure.message = f"{failure.message} (process {', '.join(map(str, indexes))} only)".strip()
    return failures, count + max(one["count"] for one in results)


def compare_held_arrays(held: Sequence[Sequence[Holding]], why: str) -> tuple[list[Failure], int]:
    """Where arrays of several processes are not one and the same, and how many have a part that two
    devices hold.
    """
    failures: list[Failure] = []
    count = 0
    by_name = [{one["where"]: one for one in arrays} for arrays in held]
    for where in dict.fromkeys(where for names in by_name for where in names):
        missing = [index for index, names in enumerate(by_name) if where not in names]
        if missing:
            have = next(index for index in range(len(held)) if index not in missing)
            message = f"process {have} has it, and process {missing[0]} does not"
            failures.append(_replica_failure(by_name[have][where], message))
            continue
        ones = [names[where] for names in by_name]
        other = next((i for i, one in enumerate(ones) if one["array"] != ones[0]["array"]), 0)
        laid = next((i for i, one in enumerate(ones) if one["spec"] != ones[0]["spec"]), 0)
        if other or laid:
            index = other or laid
            what = "array" if other else "spec"
            message = f"process 0 has {ones[0][what]}, and process {index} has {ones[index][what]}"
            failures.append(_replica_failure(ones[0], message))
            continue
        shared, message = _compare_replicas(ones)
        count += shared
        if message:
            failures.append(_replica_failure(ones[0], message + why))
    return failures, count


def _compare_replicas(ones: Sequence[Holding]) -> tuple[bool, str]:
    """Return whether two devices hold the same part of an array, and a difference between its copies."""
    first: dict[str, tuple[int, int, str]] = {}
    shared = False
    for index, one in enumerate(ones):
        for part, device, digest in one["parts"]:
            if part not in first:
                first[part] = (index, device, digest)
                continue
            shared = True
            if digest != first[part][2]:
                process, other, _ = first[part]
                who = (
                    f"processes {process} and {index}"
                    if process != index
                    else f"devices {other} and {device} of process {index}"
                )
                return True, f"{who} have different values in the same shard {part}"
    return shared, ""


def _replica_failure(holding: Holding, message: str) -> Failure:
    return Failure("replicas", message, holding["where"], holding["path"], holding["array"])
