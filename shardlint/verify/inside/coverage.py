"""Which of a fixture's declarations were checked so far, and what becomes of those that no level checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from shardlint.verify.declarations import Declaration, list_declarations, natural_levels
from shardlint.verify.fixture import Fixture
from shardlint.verify.report import Failure


@dataclass
class Looked:
    """Coverage of the declarations that a level can check.

    `proved` holds those it compared with something, `idle` those it can tell to prove nothing here with the reason,
    `missed` those it had to leave unchecked with the reason.
    """

    proved: set[str] = field(default_factory=set)
    idle: dict[str, str] = field(default_factory=dict)
    missed: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    """Sentences on what is proved in part only."""

    def __iadd__(self, other: Looked) -> Looked:
        self.proved |= other.proved
        self.idle |= other.idle
        self.missed |= other.missed
        self.said += [sentence for sentence in other.said if sentence not in self.said]
        return self

    def coverage_sentences(self) -> list[str]:
        """Return the sentences of the report about declarations that prove nothing."""
        unproved = {text: why for text, why in self.idle.items() if text not in self.proved}
        return [f"{text} proves nothing: {why}" for text, why in unproved.items()] + self.said


class Coverage:
    """Follows the declarations of a fixture through the levels of one process.

    `skipped` are levels that cannot be run on this mesh, each with the reason; `elsewhere` are levels that other
    processes run.
    """

    def __init__(
        self,
        fixture: Fixture,
        levels: Sequence[str],
        skipped: Mapping[str, str] | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        self.left = {one.text: one for one in list_declarations(fixture)}
        self.levels = list(levels)
        self.reasons: dict[str, list[str]] = {text: [] for text in self.left}
        self.skipped = dict(skipped or {})
        self.elsewhere = elsewhere
        # Levels that a person left out, with --level or by choosing tests.
        self.left_out = set(natural_levels(fixture)) - {*levels, *self.skipped}
        for text, one in self.left.items():
            self.reasons[text] += [why for level, why in self.skipped.items() if level in one.levels]

    def close_level(self, level: str, looked: Looked, reason: str = "") -> tuple[list[Failure], list[str]]:
        """Take in what a level made of them (`reason`: why it could do nothing at all).

        Returns a failure for each declaration that it was the last to be able to check and did not, and sentences on
        those that levels a person left out could have checked.
        """
        for text in (*looked.proved, *looked.idle):
            self.left.pop(text, None)
        for text, one in self.left.items():
            why = looked.missed.get(text, reason)
            if why and level in one.levels:
                self.reasons[text].append(why)
        later = self.levels[self.levels.index(level) + 1 :] if level in self.levels else []
        failures: list[Failure] = []
        omitted: list[str] = []
        for text, one in list(self.left.items()):
            if set(one.levels) & set(later) or (later and level not in one.levels):
                continue
            if set(one.levels) <= set(self.elsewhere):
                continue
            del self.left[text]
            if self.left_out & set(one.levels):
                omitted.append(text)
                continue
            failures.append(
                Failure("unchecked", f"{text} was not checked: {self._explain_uncovered(one)}", path=text)
            )
        return failures, [f"not checked at this level: {', '.join(omitted)}"] if omitted else []

    def _explain_uncovered(self, declaration: Declaration) -> str:
        reasons = list(dict.fromkeys(self.reasons[declaration.text]))
        if reasons:
            return "; ".join(reasons)
        if declaration.levels == ("topology",):
            return "it needs level topology, and no topology is declared"
        return f"it needs level {' or '.join(declaration.levels)}, which did not run"
