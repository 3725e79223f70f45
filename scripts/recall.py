"""How many real mistakes `shardlint check` finds: each in its whole project, as that was before the fix.

`python scripts/recall.py MIRRORS` lays out the parent of every fix commit in benchmarks/recall/commits.jsonl from bare
repositories (MIRRORS/OWNER+NAME/repo), checks the file, and writes benchmarks/recall/found.jsonl and
evaluation/recall.md. `--only ID` looks at some and keeps the results of the others; with another `--certainty` than
possible it only prints.

A mistake is found when a finding lies within one line of a marked line and is about it: what only says that a name is
old counts for mistakes about old names.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parent))
import checkouts

ROOT = Path(__file__).resolve().parent.parent
COMMITS = ROOT / "benchmarks" / "recall" / "commits.jsonl"
FOUND = ROOT / "benchmarks" / "recall" / "found.jsonl"
PAGE = ROOT / "evaluation" / "recall.md"
DEFAULT = ("proven", "likely")
_GATHERED = {
    "first": (
        "## Trained: the mistakes that the rules were written from",
        "",
        "These figures say how much of the training set the rules still find. They do not predict other projects.",
    ),
    "later": (
        "## Trained later: mistakes of other projects",
        "",
        "Nobody looked at these projects while the first rules were written. Misses led to rules since, so the table",
        "is trained. First scores, where they were recorded: 14 of 35 mistakes of T1 to T4 were found by default, and",
        "4 of the 19 that are not about old names.",
    ),
    "mined": (
        "## Trained later: the histories of 75 known projects",
        "",
        "People who had not seen the rules collected these mistakes (M1 and M2). First scores by default: 7 of the 97",
        "of M1 and 11 of the 94 of M2. Misses led to forms since.",
    ),
    "unseen": (
        "## Kept aside: the histories of 60 other projects",
        "",
        "M3 holds 83 mistakes of 44 projects and M4 holds 63 mistakes of 16 projects. First scores by default: 9 of 83",
        "and 4 of 63. Two mistakes of M3 (M3-018, M3-071) were worked on afterwards. The table is today's score.",
    ),
}
_LIMIT = 600  # seconds for one file
_ABOUT_NAMES = {"api-removed-or-misused", "explicit-mode-migration", "pmap-legacy"}
_NAMES_IN = re.compile("legacy|removed|deprecat|renam|private|nonexistent")
_OF_NAMES = ("SL9", "SL315", "SL504", "SL513", "SL002", "SL003")


@dataclass(frozen=True)
class Mistake:
    """A mistake that a commit of a public repository fixed: where it stood in the parent, and what it was."""

    id: str
    repository: str
    commit: str
    parent: str
    path: str
    lines: tuple[int, ...]
    category: str
    family: str
    tier: str
    description: str
    reason: str = ""
    """Why it is not found, for those that are not."""
    unrelated: tuple[str, ...] = ()
    """Rules that find something else at its place: by the score it is found, but that speaks for no form."""
    gathered: Literal["first", "later", "mined", "unseen"] = "first"
    """Whether it belongs to those by which the rules were made, or to which of those that were gathered later."""

    @property
    def about_names(self) -> bool:
        """True if it is about names that releases take away, so that a finding about one may be about it."""
        return self.family in _ABOUT_NAMES or _NAMES_IN.search(self.category) is not None

    def hit_by(self, finding: dict[str, Any]) -> bool:
        """Return whether a finding of `check --output-format json` is within one line of it and about it."""
        first, last = finding["line"] - 1, max(finding["line"], finding["end_line"]) + 1
        if not any(first <= line <= last for line in self.lines):
            return False
        return self.about_names or not finding["code"].startswith(_OF_NAMES)


@dataclass(frozen=True)
class Hit:
    """A finding that is about a mistake."""

    rule: str
    form: str
    certainty: str


@dataclass(frozen=True)
class Result:
    """Result for a mistake: the findings about it, or why it could not be checked. `seconds` is not saved."""

    id: str
    hits: tuple[Hit, ...] = ()
    unavailable: str = ""
    seconds: float = field(default=0, compare=False)

    def is_found(self, wanted: Sequence[str]) -> bool:
        """Return whether a finding of one of these certainties is about it."""
        return any(hit.certainty in wanted for hit in self.hits)


def all_mistakes() -> list[Mistake]:
    """All recorded mistakes."""
    rows = (json.loads(line) for line in COMMITS.read_text("utf-8").splitlines())
    return [
        Mistake(**{**row, "lines": tuple(row["lines"]), "unrelated": tuple(row.get("unrelated", ()))})
        for row in rows
    ]


def last_results() -> dict[str, Result]:
    """Return the results of the last run, by mistake."""
    rows = [json.loads(line) for line in FOUND.read_text("utf-8").splitlines()] if FOUND.is_file() else []
    return {
        row["id"]: Result(row["id"], tuple(Hit(**hit) for hit in row["hits"]), row["unavailable"])
        for row in rows
    }


def check_mistakes(group: Sequence[Mistake], mirrors: Path, certainty: str) -> list[Result]:
    """Check the mistakes of one commit, in one checkout."""
    first = group[0]
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        try:
            checkouts.open_mirror(mirrors, first.repository).lay_out(first.parent, Path(folder))
        except checkouts.NotAvailable as error:
            return [Result(mistake.id, unavailable=str(error)) for mistake in group]
        laid_out = (time.monotonic() - start) / len(group)
        return [_check_mistake(mistake, Path(folder), certainty, laid_out) for mistake in group]


def _check_mistake(mistake: Mistake, folder: Path, certainty: str, laid_out: float) -> Result:
    start = time.monotonic()
    if not (folder / mistake.path).is_file():
        return Result(mistake.id, unavailable="the mirror lacks the file")
    command = [sys.executable, "-m", "shardlint", "check", "--no-cache", "--output-format", "json"]
    # The checkout is the working folder: nothing of it may be imported.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    try:
        run = subprocess.run(
            [*command, "--certainty", certainty, mistake.path],
            capture_output=True, text=True, cwd=folder, env=environment, timeout=_LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Result(mistake.id, unavailable=f"check takes more than {_LIMIT} seconds")
    if run.returncode not in (0, 1) and not run.stdout.startswith("{"):  # a file that does not parse is a miss
        reason = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
        return Result(mistake.id, unavailable=f"check could not be run: {reason[-200:]}")
    findings = [finding for finding in json.loads(run.stdout)["findings"] if mistake.hit_by(finding)]
    hits = {Hit(finding["code"], finding["form"], finding["certainty"]) for finding in findings}
    kept = tuple(sorted(hits, key=lambda hit: (hit.rule, hit.form, hit.certainty)))
    return Result(mistake.id, kept, seconds=laid_out + time.monotonic() - start)


def look_at_all(chosen: Iterable[Mistake], mirrors: Path, certainty: str, jobs: int) -> Iterator[Result]:
    """Check mistakes, those of one commit together, several commits at a time; results come in order."""
    groups: dict[tuple[str, str], list[Mistake]] = defaultdict(list)
    for mistake in chosen:
        groups[mistake.repository, mistake.parent].append(mistake)
    with ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(lambda group: check_mistakes(group, mirrors, certainty), groups.values()):
            yield from found


def recall_page(every: Sequence[Mistake], known: dict[str, Result]) -> str:
    """evaluation/recall.md."""
    there = [m for m in every if m.id in known and not known[m.id].unavailable]
    lines = [
        "# Recorded mistakes: which ones `check` finds",
        "",
        f"{len(every)} mistakes in public repositories that a commit fixed. `check` runs on the whole project as it",
        "was before the fix. A mistake counts as found if a finding about it is within one line of it. *Default*",
        "counts proven and likely findings, *possible* also those of `--certainty possible`. `make recall MIRRORS=...`",
        f"repeats the measurement. {len(every) - len(there)} mistakes are not available. [Evaluation](README.md) says",
        "which figures predict a new project. Written by scripts/recall.py.",
    ]
    for gathered, heading in _GATHERED.items():
        group = [mistake for mistake in there if mistake.gathered == gathered]
        lines += ["", *heading] if group else []
        lines += (
            [line for key in ("tier", "family") for line in _recall_table(key, group, known)] if group else []
        )
    lines += ["", "## Found", "", "| | where | mistake | by |", "|---|---|---|---|"]
    lines += [
        _describe_mistake(m, _describe_hits(known[m.id], m.unrelated)) for m in there if known[m.id].hits
    ]
    lines += ["", "## Not found", "", "| | where | mistake | why not |", "|---|---|---|---|"]
    lines += [_describe_mistake(m, m.reason or "not looked into yet") for m in there if not known[m.id].hits]
    left = [m for m in every if m not in there]
    if left:
        lines += ["", "## Not available", "", "| | where | mistake | |", "|---|---|---|---|"]
        lines += [
            _describe_mistake(m, known[m.id].unavailable if m.id in known else "not looked at") for m in left
        ]
    return "\n".join(lines) + "\n"


def _recall_table(key: str, group: Sequence[Mistake], known: dict[str, Result]) -> Iterator[str]:
    yield from ("", f"| {key} | mistakes | default | possible |", "|---|---|---|---|")
    for name in sorted({getattr(mistake, key) for mistake in group}):
        yield _format_row(name, [m for m in group if getattr(m, key) == name], known)
    if key == "tier":
        yield _format_row("T1 to T4", [m for m in group if not m.tier.startswith("T5")], known)
    yield _format_row("all", group, known)


def _format_row(name: str, group: Sequence[Mistake], known: dict[str, Result]) -> str:
    default = sum(known[mistake.id].is_found(DEFAULT) for mistake in group)
    return f"| {name} | {len(group)} | {default} | {sum(bool(known[m.id].hits) for m in group)} |"


def _describe_mistake(mistake: Mistake, last: str) -> str:
    where = f"{mistake.repository} `{mistake.parent[:10]}` {mistake.path}:{mistake.lines[0]}"
    cells = (mistake.id, where, mistake.description, last)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _describe_hits(result: Result, unrelated: Sequence[str] = ()) -> str:
    named = (
        f"{hit.rule} {hit.form}".strip()
        + f" ({hit.certainty}{', of something else' if hit.rule in unrelated else ''})"
        for hit in result.hits
    )
    return ", ".join(named)


def projects_with_mistakes() -> dict[tuple[str, str], frozenset[str]]:
    """The repositories with a recorded mistake that a form finds, by rule and form."""
    known = last_results()
    found: dict[tuple[str, str], frozenset[str]] = {}
    for mistake in all_mistakes():
        for hit in known[mistake.id].hits if mistake.id in known else ():
            if hit.rule not in mistake.unrelated:
                key = hit.rule, hit.form
                found[key] = found.get(key, frozenset()) | {mistake.repository}
    return found


def recall_totals(chosen: Sequence[Mistake], known: dict[str, Result]) -> Iterator[str]:
    """Found of all by tier, in lines."""
    there = [m for m in chosen if m.id in known and not known[m.id].unavailable]
    tiers = sorted({mistake.tier[:2] for mistake in there})
    for name, wanted in [(tier, {tier}) for tier in tiers] + [("T1 to T4", set(tiers) - {"T5"})]:
        group = [mistake for mistake in there if mistake.tier[:2] in wanted]
        default = sum(known[mistake.id].is_found(DEFAULT) for mistake in group)
        yield f"{name}: {default} of {len(group)}, {sum(bool(known[m.id].hits) for m in group)} at possible"


def main() -> int:
    """Look at the mistakes and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirrors", type=Path, help="folder of OWNER+NAME/repo bare repositories")
    parser.add_argument("--only", action="append", metavar="ID", help="look at these only")
    parser.add_argument("--certainty", choices=("proven", "likely", "possible"), default="possible")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    every = all_mistakes()
    chosen = [mistake for mistake in every if not options.only or mistake.id in options.only]
    known, now = last_results(), {}
    named = {mistake.id: mistake for mistake in every}
    start = time.monotonic()
    for result in look_at_all(chosen, options.mirrors, options.certainty, options.jobs):
        now[result.id] = result
        if options.certainty == "possible":  # a run that is stopped has not been for nothing
            keep_results(every, {**known, **now})
        said = result.unavailable or _describe_hits(result) or "missed"
        mistake = named[result.id]
        place = f"{mistake.repository} {mistake.path}:{mistake.lines[0]}"
        print(f"{mistake.tier[:2]} {result.id} {place} {said} ({result.seconds:.1f} s)", flush=True)
    print(*recall_totals(chosen, now), sep="\n")
    print(f"{len(chosen)} mistakes in {time.monotonic() - start:.0f} s")
    if options.certainty == "possible":
        known.update(now)
        write_results(every, known)
    return 0


def write_results(every: Sequence[Mistake], known: dict[str, Result]) -> None:
    """Keep what was found, and write the page."""
    keep_results(every, known)
    PAGE.write_text(recall_page(every, known), "utf-8")


def keep_results(every: Sequence[Mistake], known: dict[str, Result]) -> None:
    """Keep what was found."""
    rows = []
    for mistake in every:
        if mistake.id in known:
            row = asdict(known[mistake.id])
            del row["seconds"]
            rows.append(json.dumps(row))
    FOUND.write_text("\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
