"""The ledger: findings on public code that a person judged, by rule and form.

A rule pack says where its ledger is: `LEDGER` names folders of `CODE.jsonl`, one judged finding a line. A form of a
rule is likely only if the ledger or recorded real mistakes bear that out (`earned`), or if it is about a contract that
is tested against jax and names what it assumes (`Rule.assumptions`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from shardlint.rules_api.registry import ledger_folders
from shardlint.source.lazy import dataclass

Verdict = Literal["right", "harmless", "wrong"]
"""The program has the mistake; what the finding says is true but nobody need act on it; it is not true."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
SHARE = 0.9
"""What share of its judged findings must be true for a form to be likely."""
_SOURCES = 2


class BadLedger(Exception):
    """A ledger that cannot be used; the message names the file, the line and what is wrong."""


@dataclass(frozen=True)
class Judged:
    """A finding on public code and what a person says of it, with the reason in one sentence."""

    rule: str
    form: str
    verdict: Verdict
    repository: str
    commit: str
    path: str
    line: int
    reason: str

    @property
    def place_key(self) -> tuple[str, str, str, str, int]:
        """Return the key of the judged place. A place is judged once."""
        return self.rule, self.repository, self.commit, self.path, self.line


@dataclass(frozen=True)
class Figures:
    """How many findings of a form were judged to be what."""

    right: int = 0
    harmless: int = 0
    wrong: int = 0
    repositories: int = 0
    """The number of repositories with a right finding."""

    @property
    def judged_count(self) -> int:
        """How many there are."""
        return self.right + self.harmless + self.wrong

    @property
    def true_share(self) -> float | None:
        """The share that is true, from 0 to 1; None where none was judged."""
        return (self.right + self.harmless) / self.judged_count if self.judged_count else None


def is_evidence_sufficient(figures: Figures, projects: int) -> bool:
    """True if the evidence for a form suffices to report it by default.

    Two repositories must have a finding that was judged right, or two projects (`projects`) a recorded mistake that the
    form finds; and nine of ten judged findings must be right or harmless.
    """
    if figures.true_share is not None and figures.true_share < SHARE:
        return False
    return figures.repositories >= _SOURCES or projects >= _SOURCES


def judged_findings(code: str) -> list[Judged]:
    """Return the judged findings of a rule. Raises `BadLedger`."""
    return [judged for folder in ledger_folders() for judged in read_judgements(folder / f"{code}.jsonl")]


def read_judgements(path: Path) -> Iterator[Judged]:
    """The judged findings of one file, none where there is no file. Raises `BadLedger`."""
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            yield parse_judgement(json.loads(line))
        except (ValueError, TypeError) as error:
            raise BadLedger(f"{path}:{number}: {error}") from None


def parse_judgement(row: object) -> Judged:
    """A judged finding from plain data. Raises `ValueError` or `TypeError` for what is none."""
    if not isinstance(row, dict):
        raise ValueError("not an object")
    judged = Judged(**row)
    if judged.verdict not in VERDICTS:
        raise ValueError(f"verdict is {judged.verdict!r}; write one of {', '.join(VERDICTS)}")
    if not judged.reason.strip():
        raise ValueError("no reason is given")
    return judged


def figures_by_form(judged: Iterable[Judged]) -> dict[str, Figures]:
    """The figures of each form, by its name."""
    by_form: dict[str, list[Judged]] = {}
    for row in judged:
        by_form.setdefault(row.form, []).append(row)
    return {
        form: Figures(
            **{verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS},
            repositories=len({row.repository for row in rows if row.verdict == "right"}),
        )
        for form, rows in sorted(by_form.items())
    }


def figures_as_table(found: dict[str, Figures]) -> Iterator[str]:
    """The figures of a rule as rows of a Markdown table."""
    for form, each in found.items():
        share = f"{each.true_share:.0%}" if each.true_share is not None else ""
        yield f"| {form or 'proven form'} | {each.right} | {each.harmless} | {each.wrong} | {share} |"


HEAD = ("| form | correct, needs a fix | correct, harmless | false positive | precision |", "|---|---|---|---|---|")
