"""The report of a run: text for a person, one JSON object for a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shardlint.output.printable import make_printable
from shardlint.run.dumps import Compiled
from shardlint.run.findings import Facts, Moved, RunFinding
from shardlint.run.launch import Ended
from shardlint.run.raised.exception_report import ExplainedException
from shardlint.run.raised.exception_report import explanation_lines as told_lines
from shardlint.run.recompiled import describe_changes
from shardlint.verify.facts import Line
from shardlint.verify.spec import sizes_text
from shardlint.verify.texts import size_text

_LINES = 12
_NAMES = 6
_TESTS = 2


@dataclass
class Report:
    """A run: what was started, how it ended, and what it compiled. Files are shown relative to `root`."""

    command: Sequence[str]
    ended: Ended
    facts: Facts
    large: int
    root: Path
    raised: Sequence[ExplainedException] = ()

    def format_place(self, line: Line) -> str:
        """`train.py:41`, relative to `root` where it lies below."""
        if not line.file:
            return str(line)
        path = Path(line.file)
        for above in path.parents:
            if above == self.root or above.name in ("site-packages", "dist-packages"):
                return f"{path.relative_to(above).as_posix()}:{line.line}"
        return str(line)

    @property
    def reported_moves(self) -> list[Moved]:
        """Return the moves to report: at least a hundredth of the largest, and not less than `large`."""
        least = max(self.large, self.facts.moved[0].bytes / 100) if self.facts.moved else 0
        return [one for one in self.facts.moved if one.bytes >= least]

    def summary_line(self) -> str:
        """One line: what was compiled, over what."""
        facts = self.facts
        if not facts.compiled:
            none = "no jax program was compiled"
            return f"{none} before the exception" if self.raised else f"nothing to report: {none}"
        programs = f"{facts.compiled} program{'s' if facts.compiled > 1 else ''} compiled"
        if facts.device_count < 2 and self.raised:
            return f"{programs} before the exception"
        if facts.device_count < 2:
            built = " and ".join(sizes_text(mesh).replace(",", " ") for mesh in facts.built)
            return f"{programs}, each for one device: " + (
                f"no array is placed on the mesh {built}" if built else "there is no mesh"
            )
        meshes = [sizes_text(mesh).replace(",", " ") for mesh in facts.distinct_meshes or facts.built]
        over = f"mesh {' and '.join(meshes)}" if meshes else f"{facts.device_count} devices"
        return f"{programs}, over {over}"


def text_report(report: Report, colour: bool = False) -> str:
    """The report for a person."""
    facts = report.facts
    lines = [*told_lines(report.raised), f"shardlint run: {report.summary_line()}"]
    for found in facts.found:
        lines += _found_lines(found, report, colour)
    if report.reported_moves:
        lines.append("bytes moved in one call, per device:")
        lines += [_moved_line(one, report) for one in report.reported_moves[:_LINES]]
        if len(report.reported_moves) > _LINES:
            lines.append(f"  ... and {len(report.reported_moves) - _LINES} more lines (all are in --report FILE.json)")
    lines += [make_printable(f"note: {note}") for note in (*report.ended.notes, *facts.notes)]
    if facts.device_count > 1 or facts.found:
        count = len(facts.found)
        below = f", and {facts.below} about arrays below {size_text(report.large)}" if facts.below else ""
        told = len(report.raised)
        explained = f"{told} exception{'' if told == 1 else 's'} explained, " if told else ""
        lines.append(
            f"{explained}{count or 'no'} finding{'' if count == 1 else 's'}{below}; "
            f"the program exited with {report.ended.code}"
        )
    return "\n".join(lines)


def _found_lines(finding: RunFinding, report: Report, colour: bool) -> Iterator[str]:
    kind = f"\x1b[31;1m{finding.kind}\x1b[0m" if colour else finding.kind
    code = f" ({finding.code})" if finding.code else ""
    yield f"{make_printable(report.format_place(finding.line))}: {kind} in {make_printable(finding.function)}{code}"
    yield make_printable(f"  {finding.message}")
    yield from (make_printable(f"    {text}") for text in finding.arrays[:_NAMES])
    if len(finding.arrays) > _NAMES:
        yield f"    ... and {len(finding.arrays) - _NAMES} more"
    if finding.advice:
        yield f"  instead: {finding.advice}"
    if finding.see:
        places = ", ".join(f"{report.format_place(line)} ({word})" for word, line in finding.see)
        yield make_printable(f"  see: {places}")
    if finding.tests:
        yield make_printable(f"  in: {tests_text(finding)}")


def tests_text(finding: RunFinding) -> str:
    """The tests in which it was first seen."""
    more = len(finding.tests) - _TESTS
    return ", ".join(finding.tests[:_TESTS]) + (f" and {more} more" if more > 0 else "")


def over_text(moved: Moved) -> str:
    """Over what a line's bytes move: `over data`, or the size of a group where axes have no names."""
    return f"over {', '.join(moved.axes)}" if moved.axes else f"in groups of {moved.group}"


def _moved_line(moved: Moved, report: Report) -> str:
    what = ", ".join(moved.of[:2]) or ", ".join(moved.arrays[:2])
    more = max(len(moved.of) or len(moved.arrays), 2) - 2
    what += f" and {more} more" if more else ""
    return make_printable(
        f"  {size_text(moved.bytes):>10}  {report.format_place(moved.line)} ({moved.function})  "
        f"{moved.kind} {over_text(moved)}{format_trip_count(moved)}: {what}"
    )


def format_trip_count(moved: Moved) -> str:
    """How often the collectives of a line run in one call, where not once."""
    known = [str(count) for count in moved.trips if count is not None and count > 1]
    text = f" x{'/'.join(known)}" if known else ""
    return text + (" (and each round of a loop)" if None in moved.trips else "")


def json_report(report: Report, version: str) -> str:
    """The report for a program: one object."""
    facts = report.facts
    return json.dumps(
        {
            "schema": 1,
            "version": version,
            "command": list(report.command),
            "exit_code": report.ended.code,
            "seconds": round(report.ended.seconds, 3),
            "devices": facts.device_count,
            "meshes": facts.distinct_meshes,
            "compiled": facts.compiled,
            "compile_seconds": round(facts.seconds, 3),
            "large_bytes": report.large,
            "raised": [one.encode_explanation() for one in report.raised],
            "findings": [asdict(found) for found in facts.found],
            "moved": [asdict(moved) for moved in facts.moved],
            "functions": [_encode_function(each) for each in facts.functions],
            "notes": [*report.ended.notes, *facts.notes],
        },
        indent=2,
    )


def _encode_function(each: Sequence[Compiled]) -> dict[str, Any]:
    function = each[0].function
    return {
        "name": function.name,
        "line": asdict(function.line),
        "own": function.own,
        "compilations": [
            {
                "process": one.process,
                "seconds": round(one.seconds, 3),
                "partitions": one.partitions,
                "replicas": one.replicas,
                "called_from": asdict(one.function.call),
                "unplaced": sorted(one.unplaced),
                "changed": describe_changes(each[at - 1], one) if at else [],
                "program": asdict(one.program),
            }
            for at, one in enumerate(each)
        ],
    }


def command_text(words: Sequence[str]) -> str:
    """The command as a shell takes it."""
    return shlex.join(words)
