"""Findings that say the same words in many places: told once, with the places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlint.engine.results import FileReport
    from shardlint.rules_api.rule import Finding

# So few are shown each in its place.
_FEW = 3
# So many places are named below the first.
_NAMED = 12
_Words = tuple[str, str, str, str, str]


class Alike:
    """Which findings of a report say the same."""

    def __init__(self, reports: Sequence[FileReport], asked: frozenset[str]) -> None:
        self._places: dict[_Words, list[tuple[FileReport, Finding]]] = {}
        for file in reports:
            for finding in file.findings:
                if finding.rule.code not in asked and finding.certainty.value != "possible":
                    self._places.setdefault(_words_of_finding(finding), []).append((file, finding))
        self._first = {key: found[0][1] for key, found in self._places.items() if len(found) > _FEW}

    def is_shown(self, finding: Finding) -> bool:
        """Return whether it has a frame of its own."""
        return self._first.get(_words_of_finding(finding), finding) is finding

    def note_for(self, finding: Finding) -> str:
        """Under the first of many: where the others are."""
        if self._first.get(_words_of_finding(finding)) is not finding:
            return ""
        from shardlint.output.phrases import format_count, format_place

        others = self._places[_words_of_finding(finding)][1:]
        files: dict[str, list[str]] = {}
        for file, other in others[:_NAMED]:
            files.setdefault(str(file.path), []).append(format_place(file, other)[len(str(file.path)) + 1 :])
        places = "; ".join(f"{path}:{', '.join(spots)}" for path, spots in files.items())
        said = f"The same in {format_count(len(others), 'other place')}: {places}"
        left = len(others) - _NAMED
        return f"{said}; and {left} more (--select {finding.rule.code} shows each)" if left > 0 else said


def _words_of_finding(finding: Finding) -> _Words:
    from shardlint.rules_api.rule import NO_FIX, TOGETHER  # late: most runs find nothing

    fix = finding.fix
    said = (finding.rule.code, finding.certainty.value, finding.message, finding.why)
    # What moves with a whole project is kept by much the same everywhere: the first one names it.
    return (*said, fix.message if fix is not None else finding.help.partition(f"; {NO_FIX}{TOGETHER}")[0])
