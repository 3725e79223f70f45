"""The user's own names in findings about what `eqx.filter_jit` and `nnx.jit` compile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from shardlint.run.dumps import Compiled
from shardlint.run.findings import RunFinding
from shardlint.run.observed.events import Events


class Renamed:
    """Source names for the names that jax generated, by function and, if no two functions differ, for all."""

    def __init__(self, events: Events) -> None:
        self._of: dict[tuple[str, str, int], dict[str, str]] = {}
        self._called: dict[tuple[str, int], dict[str, str]] = {}
        self._everywhere: dict[str, str] = {}
        clash = set()
        for one in events.events_of_kind("named"):
            file, line, _ = one["defined"] or ("", 0, "")
            names = {str(old): str(new) for old, new in one["names"].items()}
            self._of.setdefault((one["name"], file, line), {}).update(names)
            for file, line, _ in one["lines"]:
                self._called.setdefault((file, line), {}).update(names)
            for old, new in names.items():
                if self._everywhere.setdefault(old, new) != new:
                    clash.add(old)
        for old in clash:
            del self._everywhere[old]

    def rename_finding(self, finding: RunFinding) -> RunFinding:
        """A finding with the user's names."""
        if not self._of:
            return finding
        known = dict(self._everywhere)
        lines = {(line.file, line.line) for line in (finding.line, *(line for _, line in finding.see))}
        for (name, file, line), names in self._of.items():
            if name == finding.function or (file, line) in lines:
                known.update(names)
        for place in lines & set(self._called):
            known.update(self._called[place])
        to = _make_renamer(known)
        return replace(
            finding, message=to(finding.message), arrays=tuple(map(to, finding.arrays)), advice=to(finding.advice)
        )

    def rename_functions(self, functions: Iterable[Sequence[Compiled]]) -> list[list[Compiled]]:
        """Functions, for reports, with the user's names for what they take and give."""
        if not self._of:
            return [list(each) for each in functions]
        return [[self._rename_compiled(one) for one in each] for each in functions]

    def _rename_compiled(self, compiled: Compiled) -> Compiled:
        place = (compiled.function.name, compiled.function.line.file, compiled.function.line.line)
        names = self._of.get(place) or self._called.get((compiled.function.call.file, compiled.function.call.line))
        if not names:
            return compiled
        arrays = tuple(
            replace(leaf, where=names.get(leaf.where, leaf.where), path=names.get(leaf.path, leaf.path))
            for leaf in compiled.program.arrays
        )
        moved = tuple(replace(each, of=names.get(each.of, each.of)) for each in compiled.program.collectives)
        unplaced = frozenset(names.get(where, where) for where in compiled.unplaced)
        program = replace(compiled.program, arrays=arrays, collectives=moved)
        return replace(compiled, program=program, unplaced=unplaced)


def _make_renamer(names: dict[str, str]) -> Callable[[str], str]:
    if not names:
        return lambda text: text
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, longest))})(?![\w\[])")
    return lambda text: pattern.sub(lambda match: names[match[1]], text)
