"""The runs on one device that fixtures compare with: each in a process of its own, before the run on the mesh."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shardlint.verify.fixture import devices_of
from shardlint.verify.judge import failure_of_stopped
from shardlint.verify.outcome import Job, Outcome
from shardlint.verify.runner import Runner

_LINES = 8


@contextlib.contextmanager
def run_alone(runner: Runner, jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """The jobs, those that compare with a run on one device told what it gave and where it left its arrays, which are
    there until the end.
    """
    places = [index for index, job in enumerate(jobs) if _compares_numbers(job) and not runner.is_cached(job)]
    with tempfile.TemporaryDirectory(prefix="shardlint-") as folder:
        first = []
        for index in places:
            job = jobs[index]
            own = Path(folder, str(index))
            own.mkdir()
            given = {key: job[key] for key in ("file", "digest", "name", "label", "mesh")}
            first.append({"task": "alone", "devices": 1, "levels": ["execute"], "folder": str(own), **given})
        told = list(jobs)
        if first:
            for outcome in runner.run_jobs(first):
                index = places[int(outcome.job["id"])]
                said, distrust = _read_outcome(outcome)
                told[index] = {
                    **jobs[index],
                    "alone": said,
                    "folder": outcome.job["folder"],
                    "distrust": distrust,
                }
        yield told


def _compares_numbers(job: Job) -> bool:
    """Return whether a job compares numbers. A mesh of one device can compare only with a reference of its own."""
    if job["task"] != "fixture" or "execute" not in job["levels"]:
        return False
    return job["reference"] == "other" or (job["reference"] == "itself" and devices_of(job["mesh"]) > 1)


def _read_outcome(outcome: Outcome) -> tuple[dict[str, Any], str]:
    """Return the data of an `Alone`, and the reason to distrust it ("" if there is none)."""
    told = outcome.values_of_key("alone")
    distrust = outcome.distrust
    if not (distrust or outcome.stopped) and not (len(told) == 1 and isinstance(told[0], dict)):
        distrust = "its process sent something other than an answer"
    if outcome.stopped:
        failure, output = failure_of_stopped(outcome)
        at = f" at {failure.where}" if failure.where else ""
        return {
            "ended": "".join([failure.message, at, *(f"\n| {line}" for line in output[-_LINES:])])
        }, distrust
    if distrust:
        return {"ended": "its answer cannot be trusted"}, distrust
    return dict(told[0]), ""
