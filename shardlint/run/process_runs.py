"""`shardlint run --processes N`: runs, compares, and puts together what each process was found to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardlint.engine.progress import announce_slow
from shardlint.run import processes
from shardlint.run.dumps import collect_dumps
from shardlint.run.examine import examine_run, least_reported_bytes
from shardlint.run.findings import Facts
from shardlint.run.launch import Ended
from shardlint.run.observed.events import load_events
from shardlint.run.process_comparison import compare_processes
from shardlint.run.raised.exception_report import ExplainedException, explain_recorded

_DEFAULT = 4


def run_several(
    words: Sequence[str], given: dict[str, str], folder: Path, count: int, devices: int | None, large: int | None,
    timeout: float | None, memory: int | None,
) -> tuple[Ended, Facts, list[ExplainedException], int]:  # fmt: skip
    """How the processes ended, what was found in any and in all of them, and what explains their exceptions."""
    ran = processes.run_processes(
        words, given, folder, count, devices or _DEFAULT, devices is not None, timeout, memory
    )
    with announce_slow("shardlint run: reading what the program compiled"):
        seen = [(collect_dumps(one.folder), load_events(one.folder)) for one in ran.processes]
        found, notes = compare_processes(ran, [events for _, events in seen])
        if large is None:
            large = max(least_reported_bytes(compiled, events) for (compiled, _), events in seen)
        facts = Facts()
        for at, ((compiled, problems), events) in enumerate(seen):
            mine = examine_run(compiled, large, events)
            if at == 0:
                facts = mine
            else:
                known = {(one.kind, one.line) for one in facts.found}
                facts.found += [one for one in mine.found if (one.kind, one.line) not in known]
            facts.notes += [problem for problem in problems if problem not in facts.notes]
        facts.found = [*found, *facts.found]
        facts.notes += notes
        explained: list[ExplainedException] = []
        for one in ran.processes:
            places = [(each.user_frame.file, each.user_frame.line) for each in explained]
            explained += [
                each
                for each in explain_recorded(one.raised, one.exit_code == 0)
                if (each.user_frame.file, each.user_frame.line) not in places
            ]
    return ran.ended, facts, explained, large
