"""From what was asked for to results: which jobs to run, in which order, and what their outcomes mean."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.source.notebook import read_program
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.environments import import_advice, shown_path
from shardlint.verify.fixture_files import first_fixture
from shardlint.verify.judge import derive_status, failure_of_stopped, read_result, results_of
from shardlint.verify.levels import PROOF_LEVELS, chosen_levels, jobs_for
from shardlint.verify.outcome import Job, Outcome
from shardlint.verify.proofs import Entry, ProofFolder, join_results
from shardlint.verify.report import FAIL, SKIP, Failure, Result
from shardlint.verify.runner import Runner
from shardlint.verify.shard import Shard
from shardlint.verify.single_device_runs import run_alone
from shardlint.verify.spec import sizes_text
from shardlint.verify.working_directory import digest_of


@dataclass
class Request:
    """Items to verify: fixture files, each with the requested names (none means all), and the proofs of rules."""

    files: Mapping[Path, Sequence[str]] = field(default_factory=dict)
    proofs: Sequence[ProofFolder] = ()
    mesh: dict[str, int] | None = None
    levels: Sequence[str] = ()
    """The levels asked for; none means all that a fixture declares."""
    shard: Shard | None = None
    options: str = ""
    """Options of the command that a rerun of one result needs too, with a blank in front."""
    processes: int | None = None
    topologies: Sequence[str] = ()
    named: Collection[Path] = ()
    """The files somebody asked for by name, who means them to have fixtures."""
    sketch: bool = False
    """Whether results come with a sketch of the numbers."""
    moved: bool = False
    """Whether the program was moved from `with mesh:` to `jax.set_mesh`, and fixtures that say "with" go along."""


def check_self(runner: Runner) -> list[str]:
    """Have known faults caught; what was caught. Raises `CannotRun` when one was missed."""
    (outcome,) = runner.run_jobs([{"task": "self_test", "devices": 2}])
    missed = [sentence for sentences in outcome.values_of_key("missed") for sentence in sentences]
    if outcome.stopped:
        missed.append("\n  ".join([outcome.stopped, *outcome.output]))
    if missed:
        raise CannotRun(
            "the self-test failed, so no result of this run can be trusted:\n  " + "\n  ".join(missed)
        )
    return [sentence for sentences in outcome.values_of_key("caught") for sentence in sentences]


def collect_declarations(runner: Runner, files: Sequence[Path]) -> list[tuple[list[dict[str, Any]], Result | None]]:
    """Return the declarations of each file, as the task `collect` lists them, or the failure of a file that cannot be
    read.
    """
    # Read before any of them is imported.
    sources = [_read_source(file) for file in files]
    digests = [digest_of(file) for file in files]
    jobs: list[Job] = [{"task": "collect", "devices": 8, "file": str(file)} for file in files]
    outcomes = sorted(runner.run_jobs(jobs), key=lambda outcome: int(outcome.job["id"]))
    found: list[tuple[list[dict[str, Any]], Result | None]] = []
    for file, source, digest, outcome in zip(files, sources, digests, outcomes, strict=True):
        failure = _explain_not_listed(outcome, runner.python, file)
        listed = outcome.values_of_key("fixtures")[0] if failure is None else []
        if failure is None and not listed and file.suffix == ".py" and (line := first_fixture(source)):
            text = f"makes no fixture at import here, though it calls Fixture at line {line}"
            failure = Failure("empty", text)
        broken = None
        if failure is not None:
            broken = Result(str(file), "", FAIL, failures=[failure], output=outcome.output)
        found.append(([{**one, "digest": digest} for one in listed], broken))
    return found


def _explain_not_listed(outcome: Outcome, python: str, file: Path) -> Failure | None:
    """Why a file's fixtures are not known, where they are not."""
    if outcome.distrust or (
        not outcome.stopped and len(outcome.values_of_key("fixtures") + outcome.values_of_key("error")) != 1
    ):
        why = outcome.distrust or "it sent something other than an answer"
        return Failure("distrust", f"its answer cannot be trusted: {why}")
    if outcome.stopped:
        failure, outcome.output = failure_of_stopped(outcome)
        return failure
    for reason in outcome.values_of_key("error"):
        return _add_advice(Failure("raised", str(reason)), python, file)
    return None


def _add_advice(failure: Failure, python: str, file: Path) -> Failure:
    """A failure with what to do about it, where its program lacks a package."""
    if failure.kind == "raised" and (what := import_advice(failure.message, python, file)):
        failure.message += f"\n{what}"
    return failure


def _read_source(file: Path) -> bytes:
    return read_program(file) or b""  # importing it tells better why it cannot be read


def verify_fixtures(runner: Runner, request: Request) -> list[Result]:
    """Every fixture of every file, on each of its meshes (or the one asked for), at each level; of these, the jobs of
    the shard asked for.

    Raises `CannotRun` for a name asked for that is not in its file, and when there is no fixture.
    """
    results: list[Result] = []
    jobs: list[Job] = []
    collected = collect_declarations(runner, list(request.files))
    for (file, names), (listed, broken) in zip(request.files.items(), collected, strict=True):
        if broken is not None:
            results.append(broken)
            continue
        for name in names:
            if all(name != one["name"] for one in listed):
                known = ", ".join(one["name"] for one in listed) or "none"
                raise CannotRun(f"{file} has no fixture {name!r}; it has {known}")
        for one in listed:
            if names and one["name"] not in names:
                continue
            if one["error"]:
                failures = [Failure("fixture", one["error"])]
                fixture = f"{file}::{one['name']}"
                results.append(Result(one["label"], "", FAIL, failures=failures, fixture=fixture))
                continue
            meshes = [request.mesh] if request.mesh else one["meshes"]
            jobs += [job for mesh in meshes for job in fixture_jobs(file, one, mesh, request, runner.seconds)]
    if jobs or results:
        empty = Failure("empty", "has no fixture; define a shardlint.verify.Fixture at module level")
        for file, (listed, broken) in zip(request.files, collected, strict=True):
            if file in request.named and not listed and broken is None:
                results.append(Result(str(file), "", FAIL, failures=[empty]))
    if request.files and not (jobs or results or request.proofs):
        raise CannotRun("no fixture found; define a shardlint.verify.Fixture at module level")
    if request.shard is None:
        found = run_jobs(runner, jobs, request)
        results += [result for group in found for result in group]
        return results + _unchecked_failures(jobs, found)
    mine = request.shard.select_units(jobs, [_estimate_cost(job) for job in jobs])
    found = run_jobs(runner, mine, request)
    # What needs no mesh to fail is told by the first shard alone.
    results = results if request.shard.index == 1 else []
    results += [result for group in found for result in group]
    # That a fixture was skipped everywhere is for the shard of its first mesh to say, and takes the others' meshes.
    firsts = {_fixture_of_job(job): job for job in reversed(jobs)}
    for failure in _unchecked_failures(mine, found):
        if firsts[failure.fixture] in mine:
            others = [job for job in jobs if _fixture_of_job(job) == failure.fixture and job not in mine]
            tried = [result for group in run_jobs(runner, others, request) for result in group]
            results += [failure] if all(result.status == SKIP for result in tried) else []
    return results


def run_jobs(runner: Runner, jobs: Sequence[Job], request: Request) -> list[list[Result]]:
    """The results of each job, in the order of the jobs."""
    found: list[list[Result]] = [[] for _ in jobs]
    with run_alone(runner, jobs) as told:
        for outcome in runner.run_jobs(told):
            found[outcome.job["id"]] = _fixture_results(outcome, request, runner.python)
    return found


def _fixture_of_job(job: Job) -> str:
    """`FILE::NAME` of a job's fixture."""
    return f"{job['file']}::{job['name']}"


def _estimate_cost(job: Job) -> float:
    """About how long a job takes, against another: a few simulated devices cost little more than one."""
    return (16.0 + float(job["devices"])) * len(job["levels"])


def fixture_jobs(
    file: Path, one: Mapping[str, Any], mesh: dict[str, int], request: Request, seconds: float
) -> list[Job]:
    """The jobs of a fixture, as `collect` lists it, on one mesh."""
    of = {
        "file": str(file),
        "digest": one.get("digest"),
        "name": one["name"],
        "label": one["label"],
        "mesh": mesh,
        "sketch": request.sketch,
        "moved": request.moved,
    }
    jobs = jobs_for(one, mesh, request.levels, request.processes, request.topologies, seconds)
    return [{**of, **job} for job in jobs]


def _fixture_results(outcome: Outcome, request: Request, python: str) -> list[Result]:
    job = outcome.job
    results = results_of(outcome)
    for result in results:
        result.target = job["label"]
        result.kept = outcome.kept
        if not result.seconds:
            result.seconds = max(outcome.seconds - sum(one.seconds for one in results), 0.0)
        result.fixture = _fixture_of_job(job)
        for failure in result.failures:
            _add_advice(failure, python, Path(job["file"]))
        place = shlex.quote(result.fixture)
        result.rerun = f"shardlint verify {place} --mesh {sizes_text(job['mesh'])} --level {result.level}"
        result.rerun += job["with"] + request.options
    return results


def _unchecked_failures(jobs: Sequence[Job], found: Sequence[Sequence[Result]]) -> list[Result]:
    """A failure for each fixture that no mesh and no level could check."""
    by_fixture: dict[str, list[Result]] = {}
    for job, results in zip(jobs, found, strict=True):
        by_fixture.setdefault(_fixture_of_job(job), []).extend(results)
    return [
        Result(
            results[0].target,
            "",
            FAIL,
            failures=[Failure("empty", "checks nothing: it was skipped everywhere")],
            fixture=results[0].fixture,
        )
        for results in by_fixture.values()
        if results and all(result.status == SKIP for result in results)
    ]


def verify_proofs(runner: Runner, request: Request) -> list[Result]:
    """Every proof asked for: all bad programs, then all good ones, which are compared with the bad
    ones' numbers.
    """
    levels = chosen_levels(request.levels, PROOF_LEVELS)
    results: dict[str, list[Result]] = {}
    pairs: list[tuple[ProofFolder, Entry, Entry]] = []
    for proof in request.proofs:
        bad = next((entry for entry in proof.bad if entry.applies_to_releases(runner.releases)), None)
        good = next((entry for entry in proof.good if entry.applies_to_releases(runner.releases)), None)
        if not levels:
            reason = "proofs have the levels compile and execute"
            results[proof.code] = [Result(proof.code, "", SKIP, reason=reason)]
        elif bad is None or good is None:
            entries = proof.bad if bad is None else proof.good
            reason = "not for these releases: needs " + " or ".join(entry.describe_releases() for entry in entries)
            results[proof.code] = [Result(proof.code, "", SKIP, reason=reason)]
        else:
            pairs.append((proof, bad, good))
    with tempfile.TemporaryDirectory(prefix="shardlint-") as folder:
        files = [Path(folder) / f"{index}.numbers" for index in range(len(pairs))]
        seen: list[list[dict[str, Result]]] = []
        for role in ("bad", "good"):
            jobs = [
                proof.make_job(role, bad, bad if role == "bad" else good, file, levels)
                for (proof, bad, good), file in zip(pairs, files, strict=True)
            ]
            outcomes = sorted(runner.run_jobs(jobs), key=lambda outcome: int(outcome.job["id"]))
            seen.append([_program_results(outcome, role, levels) for outcome in outcomes])
    for (proof, _, _), bads, goods in zip(pairs, *seen, strict=True):
        joined = [join_results(proof.code, level, bads[level], goods[level]) for level in levels]
        results[proof.code] = _leave_out_untold(joined)
        for result in joined:
            result.line = shown_path(proof.folder)
            result.rerun = f"shardlint verify --rules {proof.code} --level {result.level}{request.options}"
    return [result for proof in request.proofs for result in results[proof.code]]


def _program_results(outcome: Outcome, role: str, levels: Sequence[str]) -> dict[str, Result]:
    told = [result for data in outcome.values_of_key("result") if (result := read_result(data)) is not None]
    found = {result.level: derive_status(result, needs_leaves=False) for result in told}
    for level in levels:
        if level not in found or outcome.distrust:
            why = outcome.distrust or outcome.stopped or "said nothing"
            failure = Failure("distrust" if outcome.distrust else "stopped", f"{role}.py {why}")
            found[level] = Result("", level, FAIL, failures=[failure], output=outcome.output)
        found[level].seconds = outcome.seconds
    return found


def _leave_out_untold(results: list[Result]) -> list[Result]:
    """Leave out levels that could not tell when another could: what was not run is not reported as if
    it might have.
    """
    return [result for result in results if result.status != SKIP] or results[-1:]
