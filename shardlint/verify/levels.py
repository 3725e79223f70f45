"""The levels of proof, which of them a fixture is taken through, and the job that does each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardlint.verify.fixture import EXPLICIT, devices_of

LEVELS = ("trace", "compile", "execute", "processes", "topology")
# What one process does with simulated devices, one level after the other.
SIMULATED = ("trace", "compile", "execute")
PROOF_LEVELS = ("compile", "execute")
# The CPU backend numbers the devices of one process in steps of 2048 and compiles for no more.
DEVICES_MAX = 2048
# Processes that all do nothing for so long wait for each other.
STALL_SECONDS = 20.0
# How many time limits a topology has.
TOPOLOGY_TIMES = 5


def chosen_levels(asked: Sequence[str], levels: Sequence[str] = LEVELS) -> list[str]:
    """Those of `levels` that were asked for (none: all of them)."""
    return [one for one in levels if not asked or one in asked]


def jobs_for(
    fixture: Mapping[str, Any],
    mesh: Mapping[str, int],
    asked: Sequence[str],
    processes: int | None,
    topologies: Sequence[str],
    seconds: float,
) -> list[dict[str, Any]]:
    """The jobs that take a fixture, as the task `collect` lists it, through the levels asked for (none: all that it
    declares) on one mesh.

    Each has `task`, `devices`, `levels` (those it runs), `skips` (level -> reason, of those that cannot
    be run) and `with` (options a rerun of it needs). `processes` and `topologies` add to what the fixture
    declares; `seconds` is the time limit.
    """
    count = devices_of(mesh)
    wanted = chosen_levels(asked)
    names = list(dict.fromkeys([*fixture["topology"], *topologies]))
    jobs = [_simulated_job(fixture, count, asked) | {"elsewhere": ["topology"] if names else []}]
    if "processes" in wanted:
        jobs += _process_jobs(fixture, count, asked, processes, seconds)
    if "topology" in wanted:
        # Makers of arguments are given simulated devices. A real compiler takes minutes over what XLA's for CPU takes
        # seconds.
        more = {"seconds": TOPOLOGY_TIMES * seconds}
        jobs += [
            _make_job("topology", min(count, DEVICES_MAX), ["topology"], {}, f" --topology {name}")
            | {"topology": name, **more}
            for name in names
        ]
        if not names and asked:
            reason = "no topology is declared: topology=['v5e:4x4'] in the fixture, or --topology v5e:4x4"
            jobs.append(_skipped_job("topology", reason))
    return [job for job in jobs if job["levels"] or job["skips"]]


def _make_job(
    task: str, devices: int, levels: list[str], skips: dict[str, str], options: str = ""
) -> dict[str, Any]:
    return {"task": task, "devices": devices, "levels": levels, "skips": skips, "with": options}


def _skipped_job(level: str, reason: str, options: str = "") -> dict[str, Any]:
    return _make_job("fixture", 1, [], {level: reason}, options)


def _simulated_job(fixture: Mapping[str, Any], count: int, asked: Sequence[str]) -> dict[str, Any]:
    levels = chosen_levels(asked, SIMULATED)
    skips = {}
    if fixture["axis_types"] != EXPLICIT and "trace" in levels:
        # Said only to who asked for it: of most programs there is nothing to trace.
        levels.remove("trace")
        if asked:
            skips["trace"] = (
                "Auto axes have no shardings before the program is compiled, so this level proves nothing; "
                "axis_types='explicit' is for programs with explicit axes"
            )
    if not fixture["execute"] and "execute" in levels:
        levels.remove("execute")
        if asked:
            skips["execute"] = "the fixture says execute=False"
    if count > DEVICES_MAX:
        for name in [name for name in levels if name != "trace"]:
            levels.remove(name)
            skips[name] = f"{count} devices are too many: one process simulates at most {DEVICES_MAX}"
    job = _make_job("fixture", count if count <= DEVICES_MAX else 1, levels, skips)
    return job | {"reference": fixture["reference"]}


def _process_jobs(
    fixture: Mapping[str, Any], count: int, asked: Sequence[str], number: int | None, seconds: float
) -> list[dict[str, Any]]:
    processes = number or fixture["processes"]
    if not processes:
        if not asked:
            return []
        reason = "no processes are declared: processes=2 in the fixture, or --processes 2"
        return [_skipped_job("processes", reason)]
    options = f" --processes {processes}"
    if not fixture["execute"]:
        return [_skipped_job("processes", "the fixture says execute=False", options)]
    if count % processes:
        reason = f"{count} devices cannot be divided among {processes} processes"
        return [_skipped_job("processes", reason, options)]
    # The processes are stopped at the limit by one that can still say where they stood; it has a little longer.
    more = {"processes": processes, "limit": seconds, "seconds": seconds + 10, "stall": STALL_SECONDS}
    return [_make_job("processes", count // processes, ["processes"], {}, options) | more]
