"""Results derived from the messages of a program's process.

A process says what failed and what it compared. Whether that is a pass is not its to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardlint.verify.levels import LEVELS
from shardlint.verify.outcome import Outcome
from shardlint.verify.report import FAIL, PASS, SKIP, Failure, Result
from shardlint.verify.texts import line_text

_TEXTS = ("target", "level", "status", "reason", "line", "how", "rerun", "fixture", "topology")
_LISTS = ("failures", "notes", "output")


def results_of(outcome: Outcome) -> list[Result]:
    """The results of a fixture's job, one for each of its levels that was reached.

    What is no result of a level that was asked for, is told twice, or is left out, and whatever a process that is not
    to be trusted told, makes all of them failures of kind `distrust`.
    """
    job = outcome.job
    levels = sorted([*job["skips"], *job["levels"]], key=LEVELS.index)
    results: list[Result] = []
    distrust = outcome.distrust
    if apart := job.get("distrust"):
        distrust = distrust or f"of its run on one device, {apart}"
    for data in outcome.values_of_key("result"):
        result = read_result(data)
        if result is None or result.level not in levels or result.mesh != job["mesh"]:
            distrust = distrust or "it sent something other than a result"
        elif any(result.level == other.level for other in results):
            distrust = distrust or f"it sent two results of level {result.level}"
        else:
            results.append(derive_status(result))
    left = [level for level in levels if all(level != result.level for result in results)]
    if left and not (outcome.stopped or distrust):
        distrust = f"it sent no result of level {left[0]}"
    results.sort(key=lambda result: levels.index(result.level))
    if outcome.stopped and (left or not results):
        results.append(Result(job["label"], left[0] if left else "", FAIL, job["mesh"]))
    if outcome.stopped:
        failure, results[-1].output = failure_of_stopped(outcome)
        results[-1].status = FAIL
        results[-1].failures.append(failure)
    if distrust:
        results = results or [Result(job["label"], (left or [""])[0], FAIL, job["mesh"])]
        for result in results:
            result.status, result.reason, result.cached = FAIL, "", False
            result.failures.insert(0, Failure("distrust", f"its results cannot be trusted: {distrust}"))
    return results


def failure_of_stopped(outcome: Outcome) -> tuple[Failure, list[str]]:
    """The failure of a process that was stopped, and what it last wrote, with where it stood."""
    output = list(outcome.output)
    if outcome.stack:
        output += ["Python stack, innermost first:", *(f"  {frame}" for frame in outcome.stack)]
    where, message = outcome.where, outcome.stopped
    of = next((of for of in outcome.values_of_key("of") if isinstance(of, str)), "")
    if outcome.stack and not where and of:
        where = of
        message += "; fn was not running Python: its compiled program or a library was running"
        loops = dict.fromkeys(
            line for result in outcome.values_of_key("result") for line in _endless_collectives(result)
        )
        message += f"; loops whose length depends on data are at {', '.join(loops)}" if loops else ""
    return Failure("stopped", message, where), output


def _endless_collectives(data: Any) -> list[str]:
    """The lines of collectives in loops whose trips are not known, of a result as it was told."""
    result = read_result(data)
    if result is None or result.program is None:
        return []
    return [line_text(one.line) for one in result.program.collectives if one.trips is None and one.line.file]


def read_result(data: Any) -> Result | None:
    """A result from what a process told; None where that is none."""
    try:
        well = all(isinstance(data.get(name, ""), str) for name in _TEXTS)
        well = well and all(isinstance(data.get(name, []), list) for name in _LISTS)
        well = well and type(data.get("checked", 0)) is int and isinstance(data.get("mesh"), Mapping | None)
        result = Result.decode_result(data) if well else None
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
    if result is None or not all(isinstance(text, str) for text in [*result.notes, *result.output]):
        return None
    texts = [text for one in result.failures for text in (one.kind, one.message, one.where, one.path)]
    return result if all(isinstance(text, str) for text in texts) else None


def derive_status(result: Result, needs_leaves: bool = True) -> Result:
    """A result with the status that what it has comes to. With `needs_leaves`, one that compared nothing fails."""
    told = result.status
    if told not in (PASS, FAIL, SKIP):
        result.failures.append(Failure("distrust", f"its process sent the unknown status {told!r}"))
    elif told == FAIL and not result.failures:
        result.failures.append(Failure("distrust", "its process reported a failure without a reason"))
    elif told == PASS and not result.failures and needs_leaves and result.checked < 1:
        result.failures.append(Failure("empty", "checks nothing: no property of it was compared"))
    if result.failures:
        result.status = FAIL
    return result
