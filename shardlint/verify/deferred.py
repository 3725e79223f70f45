"""A runner that starts nothing before a program has to run: what is kept of earlier runs is told in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from shardlint.verify.kept_outcomes import Keeper
from shardlint.verify.outcome import Job, Outcome
from shardlint.verify.runner import Runner

_SAID = 3


class Deferred(Runner):
    """A `Runner` that starts with the first job that is not kept, and has its checks tried then.

    `caught` are the faults they caught. What jobs tell is kept when `keep` is called, for it is known then whose
    fixture failed.
    """

    def __init__(self, *args: Any, fresh: bool = False, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.caught: list[str] = []
        self.told = 0
        """How many jobs were not run, for they are kept."""
        self.keeper = (
            None if self.cache is None else Keeper(Path(self.cache), self.python, fresh, self._secret)
        )
        self._started = False
        self._ran: list[tuple[Job, Outcome]] = []
        self._on_one: dict[str, list[Any]] = {}

    def __enter__(self) -> Self:
        return self

    def start_runner(self) -> None:
        """Start, where that was not done. Raises `CannotRun` as a `Runner` does, and where its checks miss a fault."""
        from shardlint.verify.plan import check_self

        if not self._started:
            self._started = True
            super().__enter__()
            self.caught = check_self(self)

    def is_cached(self, job: Job) -> bool:
        """Return whether a job's outcome is cached."""
        return self.keeper is not None and self.keeper.recall_outcome(self._complete_job(job)) is not None

    def _complete_job(self, job: Job) -> Job:
        return {"seconds": self.seconds, "memory": self.memory, **job}

    def run_jobs(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """As of a `Runner`; kept outcomes come first."""
        left: list[tuple[int, Job]] = []
        for index, job in enumerate(jobs):
            kept = (
                self.keeper.recall_outcome({**self._complete_job(job), "id": index})
                if self.keeper is not None
                else None
            )
            if kept is None or self.keeper is None:
                left.append((index, job))
                continue
            self.told += job["task"] != "collect"
            if not self._started:
                self.releases = self.keeper.recalled_releases(self._complete_job(job))
            for missing in kept.values_of_key("limits"):
                self.limits += [limit for limit in missing if limit not in self.limits]
            yield kept
        if not left:
            return
        self.start_runner()
        for outcome in super().run_jobs([{**job, "keep": self.keeper is not None} for _, job in left]):
            index, job = left[outcome.job["id"]]
            outcome.job["id"] = index
            if job["task"] == "alone":
                self._on_one[_key_of_job(job)] = outcome.values_of_key("reads")
            self._ran.append((self._complete_job(job), outcome))
            yield outcome

    def keep_outcomes(self, failed: Sequence[str]) -> None:
        """Keep what was told, but of these fixtures (`FILE::NAME`) and of what cannot be kept."""
        if self.keeper is None:
            return
        for job, outcome in self._ran:
            name = f"{job.get('file')}::{job.get('name')}"
            reads = outcome.values_of_key("reads")
            if "alone" in job:
                reads = [*reads, *self._on_one.get(_key_of_job(job), [None])]
            if name not in failed:
                self.keeper.keep_outcome(job, outcome, reads, self.releases)
        self._ran.clear()

    def cache_sentences(self) -> list[str]:
        """Return the sentences about cached results, and about results that were not or will not be cached."""
        if self.keeper is None:
            return []
        said = []
        if self.told:
            ran = "the others ran" if self._started else "no program and no self-test ran"
            said.append(f"unchanged results were reported from the cache; {ran} (--fresh runs all)")
        said += [f"run again, because this changed: {what}" for what in list(self.keeper.changed)[:_SAID]]
        said += [f"not kept: {why}" for why in list(self.keeper.not_kept)[:_SAID]]
        return said


def _key_of_job(job: Job) -> str:
    """Return the key that a job and its run on one device have in common."""
    return repr((job["file"], job["name"], job["mesh"]))
