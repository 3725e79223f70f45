"""The ledger: findings on public code that a person judged, by rule and form.

A rule pack says where its ledger is: `LEDGER` names folders of `CODE.jsonl`, one judged finding a line. A form of a
rule is likely only where the ledger, or where it says nothing recorded real mistakes or programs of the recall test
set, bear that out: see `earned`.
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
_FEW = 3


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
    def place(self) -> tuple[str, str, str, str, int]:
        """What was judged; a place is judged once."""
        return self.rule, self.repository, self.commit, self.path, self.line


@dataclass(frozen=True)
class Figures:
    """How many findings of a form were judged to be what."""

    right: int = 0
    harmless: int = 0
    wrong: int = 0

    @property
    def judged(self) -> int:
        """How many there are."""
        return self.right + self.harmless + self.wrong

    @property
    def share(self) -> float | None:
        """The share that is true, from 0 to 1; None where none was judged."""
        return (self.right + self.harmless) / self.judged if self.judged else None


def earned(figures: Figures, recorded: int, programs: int = 0) -> bool:
    """Whether a form may be called likely.

    `recorded` counts the recorded real mistakes it finds, `programs` the programs of the recall test set, whose right
    twins it leaves alone. Nine of ten judged findings must be true, and some of them a mistake; where few were judged
    it must find recorded ones, or programs and no judged one is wrong. Where public code has no finding of it, recorded
    ones or programs are all there is.
    """
    if figures.share is None:
        return recorded + programs > 0
    found = figures.right + recorded
    enough = figures.judged >= _FEW or recorded > 0 or (programs > 0 and figures.wrong == 0)
    return figures.share >= SHARE and found > 0 and enough


def entries(code: str) -> list[Judged]:
    """What was judged of a rule. Raises `BadLedger`."""
    return [judged for folder in ledger_folders() for judged in read(folder / f"{code}.jsonl")]


def read(path: Path) -> Iterator[Judged]:
    """The judged findings of one file, none where there is no file. Raises `BadLedger`."""
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            yield checked(json.loads(line))
        except (ValueError, TypeError) as error:
            raise BadLedger(f"{path}:{number}: {error}") from None


def checked(row: object) -> Judged:
    """A judged finding from plain data. Raises `ValueError` or `TypeError` for what is none."""
    if not isinstance(row, dict):
        raise ValueError("not an object")
    judged = Judged(**row)
    if judged.verdict not in VERDICTS:
        raise ValueError(f"verdict is {judged.verdict!r}; write one of {', '.join(VERDICTS)}")
    if not judged.reason.strip():
        raise ValueError("no reason is given")
    return judged


def figures(judged: Iterable[Judged]) -> dict[str, Figures]:
    """The figures of each form, by its name."""
    counts: dict[str, dict[str, int]] = {}
    for one in judged:
        counts.setdefault(one.form, dict.fromkeys(VERDICTS, 0))[one.verdict] += 1
    return {form: Figures(**counts[form]) for form in sorted(counts)}


def table(found: dict[str, Figures]) -> Iterator[str]:
    """The figures of a rule as rows of a Markdown table."""
    for form, each in found.items():
        share = f"{each.share:.0%}" if each.share is not None else ""
        yield f"| {form or '(the rule itself)'} | {each.right} | {each.harmless} | {each.wrong} | {share} |"


HEAD = ("| form | right | true, harmless | wrong | true |", "|---|---|---|---|---|")
