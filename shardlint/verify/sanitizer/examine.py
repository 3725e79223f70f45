"""From what was compiled to what a person should know of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from shardlint.verify.facts import Line
from shardlint.verify.sanitizer import placement, rules
from shardlint.verify.sanitizer.dumps import Compiled
from shardlint.verify.sanitizer.findings import Facts, Moved
from shardlint.verify.sanitizer.functions import Function
from shardlint.verify.sanitizer.recompiled import recompiled
from shardlint.verify.sanitizer.run import Run


def examine(compiled: Sequence[Compiled], large: int) -> Facts:
    """All findings of a run. Arrays of fewer than `large` bytes, or of less than a hundredth of what a
    device holds of a function's arrays, are left alone.
    """
    groups: dict[Function, list[Compiled]] = defaultdict(list)
    for one in compiled:
        # Not by where it is called from.
        groups[Function(one.function.name, one.function.line, Line(), one.function.own)].append(one)
    functions = [each for each in groups.values() if each[0].function.own or each[0].devices > 1]
    facts = Facts(functions, compiled=len(compiled), seconds=sum(one.seconds for one in compiled))
    run = Run(compiled, large)
    for each in functions:
        facts.found += rules.rematerialised(each, run)
        if each[0].function.own:
            facts.found += rules.donated(each, run)
            facts.found += rules.replicated(each, run)
            facts.found += recompiled(each, run)
    facts.found += placement.nothing_split(run)
    facts.found += placement.unused_axes(run)
    facts.found += placement.from_one_device(functions, run)
    facts.found += placement.on_one_device(functions, run)
    facts.found.sort(key=lambda found: -found.bytes)
    facts.moved = _moved(functions)
    return facts


def _moved(functions: Iterable[Sequence[Compiled]]) -> list[Moved]:
    """What each line moves, the largest first; of a function compiled several times, what moves most."""
    found: list[Moved] = []
    for each in functions:
        one = max(each, key=lambda each: each.program.moved_bytes)
        lines = defaultdict(list)
        for part in one.program.collectives:
            lines[part.line, part.kind, part.axes, part.group].append(part)
        for (line, kind, axes, group), parts in lines.items():
            found.append(
                Moved(
                    line,
                    one.function.name,
                    kind,
                    axes,
                    group,
                    sum(part.moved for part in parts),
                    tuple(dict.fromkeys(part.trips for part in parts)),
                    tuple(dict.fromkeys(part.array for part in parts)),
                    tuple(dict.fromkeys(part.of for part in parts if part.of)),
                )
            )
    return sorted(found, key=lambda moved: -moved.bytes)
