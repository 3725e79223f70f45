"""What the processes of one program must have in common: the same arrays, the same program, the same
numbers wherever they hold the same part. No jax.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlint.verify.inside import programs
from shardlint.verify.report import Failure

Holding = Mapping[str, Any]


def before(ready: Sequence[Mapping[str, Any]], folder: Path) -> tuple[list[Failure], int]:
    """What the processes disagree in before anything is run, and how many arrays and programs were compared."""
    args = [one["args"] for one in ready]
    why = "; each process made its own: seed it alike, or make it in one and broadcast it"
    failures, count = agree(args, why)
    if failures or not ready[0]["program"]:
        return failures, count
    for index, one in enumerate(ready):
        if one["program"] != ready[0]["program"]:
            return [_programs(folder, index)], count + 1
    return [], count + 1


def _programs(folder: Path, index: int) -> Failure:
    mine, yours, place, other = programs.difference(folder / "program0", folder / f"program{index}")
    message = (
        f"processes 0 and {index} would run different programs, and wait for each other for ever or compute nonsense; "
        "they were not run. The first line that differs:"
    )
    for number, text, where in ((0, mine, place), (index, yours, other)):
        shown = f" (at {where})" if where else ""
        message += f"\nprocess {number}: {_short(text) or '(its program ends)'}{shown}"
    return Failure("program", message)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


def order(calls: Sequence[Sequence[Sequence[str]]]) -> str:
    """The first call in which the programs that processes ran one after another differ, as a sentence.

    A call is the name of a program and the user's line.
    """
    for number, ones in enumerate(itertools.zip_longest(*calls, fillvalue=("", "")), 1):
        other = next((index for index, one in enumerate(ones) if list(one) != list(ones[0])), None)
        if other is not None:
            told = [_call(index, *ones[index]) for index in (0, other)]
            return f"the first difference between what they ran is program {number}: {', '.join(told)}"
    return ""


def _call(index: int, name: str, line: str) -> str:
    return f"process {index} ran {name} at {line or '?'}" if name else f"process {index} ran no other"


def after(results: Sequence[Mapping[str, Any]], order: str) -> tuple[list[Failure], int]:
    """What does not hold of the results, and how many arrays were compared. `order`: the sentence of `order`."""
    failures, count = agree([one["out"] for one in results], f"; {order}" if order else "")
    if failures:
        return failures, count
    told: dict[tuple[str, str], list[int]] = {}
    for index, one in enumerate(results):
        for failure in one["failures"]:
            found = Failure(**failure)
            told.setdefault((found.kind, found.text()), []).append(index)
            if told[found.kind, found.text()] == [index]:
                failures.append(found)
    for failure in failures:
        indexes = told[failure.kind, failure.text()]
        if len(indexes) < len(results):
            failure.message = f"{failure.message} (process {', '.join(map(str, indexes))} only)".strip()
    return failures, count + max(one["count"] for one in results)


def agree(held: Sequence[Sequence[Holding]], why: str) -> tuple[list[Failure], int]:
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
            message = f"process {have} has it, and process {missing[0]} has not"
            failures.append(_failure(by_name[have][where], message))
            continue
        ones = [names[where] for names in by_name]
        other = next((i for i, one in enumerate(ones) if one["array"] != ones[0]["array"]), 0)
        laid = next((i for i, one in enumerate(ones) if one["spec"] != ones[0]["spec"]), 0)
        if other or laid:
            index = other or laid
            what = "array" if other else "spec"
            message = f"process 0 has {ones[0][what]}, and process {index} has {ones[index][what]}"
            failures.append(_failure(ones[0], message))
            continue
        shared, message = _replicas(ones)
        count += shared
        if message:
            failures.append(_failure(ones[0], message + why))
    return failures, count


def _replicas(ones: Sequence[Holding]) -> tuple[bool, str]:
    """Whether two devices hold the same part of an array, and how its copies differ."""
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
                return True, f"{who} hold different numbers for the same part {part}"
    return shared, ""


def _failure(one: Holding, message: str) -> Failure:
    return Failure("replicas", message, one["where"], one["path"], one["array"])
