"""Fixes held against the oldest releases that the project allows: what breaks it there is not made.

`jax>=0.4.30` is a promise to whoever installs the project with that release. Fixes are made for the newest one, or for
what is pinned, and may write names that came later.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shardlint.config.certainty import Certainty
from shardlint.config.pins import read_pins
from shardlint.config.targets import KNOWN, PACKAGES, Targets
from shardlint.config.versions import (
    Release,
    compare_releases,
    format_release,
    is_release_allowed,
    parse_release,
)
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options
from shardlint.rewrite.edits import forward_through
from shardlint.rewrite.project_fixes import AppliedFix, Attempt, FileInProgress
from shardlint.rules_api.rule import Finding, Harm
from shardlint.source.lazy import dataclass

# Deprecations: what they speak of works.
_WORKS = frozenset({"SL902", "SL515"})


@dataclass(frozen=True)
class Floor:
    """The oldest release of a package that a project allows, and where it says so."""

    package: str
    release: Release
    where: str
    older: bool = False
    """Whether still older ones are allowed, of which nothing is known here."""

    @property
    def describe_oldest_release(self) -> str:
        """Return the oldest release that the requirement allows, in words."""
        known = ", the oldest release that shardlint knows" if self.older else ""
        return f"{self.where} allows {format_release(self.release)}{known}"


def required_floors(root: Path, given: frozenset[str]) -> list[Floor]:
    """The lower bounds in the requirements of a project, of packages for which no target was `given`.

    A bound older than all releases known here counts as the oldest of these. What a lock file holds is what the
    project is run with; what it allows others is its requirement.
    """
    pins = read_pins(root, PACKAGES)
    found = []
    for package, (spec, where) in pins.ranges.items():
        if package in given:
            continue
        lowest = _lowest_release(package, spec)
        if lowest is not None:
            older = any(compare_releases(bound, lowest) < 0 for bound in _lower_bounds(spec))
            older = older and compare_releases(lowest, parse_release(KNOWN[package][0])) == 0
            found.append(Floor(package, lowest, f"{package}{spec} in {where}", older))
    return found


def _lower_bounds(spec: str) -> list[Release]:
    clauses = [clause.strip() for clause in spec.split(",")]
    return [parse_release(one.lstrip("><=~v ")) for one in clauses if one.startswith((">", "~=", "=="))]


def _lowest_release(package: str, spec: str) -> Release | None:
    bounds = _lower_bounds(spec)
    known = [parse_release(one) for one in KNOWN[package]]
    lowest: Release | None = None
    for one in [*bounds, *known]:
        inside = compare_releases(one, known[0]) >= 0 and compare_releases(one[:2], known[-1][:2]) <= 0
        if (
            bounds
            and inside
            and is_release_allowed(spec, one)
            and (lowest is None or compare_releases(one, lowest) < 0)
        ):
            lowest = one
    return lowest


def fixes_breaking_oldest(attempt: Attempt) -> Iterator[tuple[AppliedFix, str]]:
    """The fixes that break the project on the oldest releases it allows, with the reason."""
    changed = [work for work in attempt.works.values() if work.is_changed and not work.reason]
    if not changed:
        return
    checker = attempt.overlay_checker({})
    now = checker.targets_for(changed[0].path)
    older = [
        floor
        for floor in required_floors(attempt.root, frozenset(attempt.options.targets))
        if compare_releases(floor.release, now.release_of(floor.package)) < 0
    ]
    checker.let_go()
    if older:
        yield from _broken_on_oldest(attempt, changed, older, now)


def _broken_on_oldest(
    attempt: Attempt, changed: list[FileInProgress], older: list[Floor], now: Targets
) -> Iterator[tuple[AppliedFix, str]]:
    targets = {**attempt.options.targets, **{floor.package: format_release(floor.release) for floor in older}}
    there = Options(certainty=Certainty.PROVEN, targets=targets, config=attempt.options.config)
    before = _findings_on_releases(attempt, changed, there, as_it_was=True)
    after = _findings_on_releases(attempt, changed, there, as_it_was=False)
    for work, was, found in zip(changed, before, after, strict=True):
        yield from _fixes_lacking_api(
            work, older, now, {(one.rule.code, one.start) for one in was if _breaks_program(one)}
        )
        known = {(one.rule.code, forward_through(work.layers, one.start)) for one in was}
        for finding in found:
            if (finding.rule.code, finding.start) in known or not _breaks_program(finding):
                continue
            line = work.after.position_of(finding.start)[0]
            claim = f"{finding.message} {finding.why}"
            floor = next((one for one in older if f"On {one.package} " in claim), older[0])
            said = finding.message.rpartition(": ")[2].rstrip(".")
            why = (
                f"{floor.describe_oldest_release}, where {finding.rule.code} would report line {line} ({said}); "
                f"{_advice_for_floor(floor, now)}"
            )
            yield from (
                (made, work.after.translate_message(why)) for made in _fixes_behind_place(work, finding.start, line)
            )


def _fixes_lacking_api(
    file_work: FileInProgress, older: list[Floor], now: Targets, broken: set[tuple[str, int]]
) -> Iterator[tuple[AppliedFix, str]]:
    """The fixes of a file that write what an oldest release lacks, but for those of what is `broken` there already."""
    for made in file_work.made:
        if made.finding.fix is None or (made.finding.rule.code, made.origin) in broken:
            continue
        for one in made.finding.fix.needs:
            floor = next((floor for floor in older if floor.package == one.package), None)
            if floor is not None and compare_releases(floor.release, parse_release(one.since)) < 0:
                came = f"{one.what} is new in {one.package} {one.since}"
                yield made, f"{floor.describe_oldest_release}, and {came}; {_advice_for_floor(floor, now)}"


def _advice_for_floor(floor: Floor, now: Targets) -> str:
    return f"raise that bound, or pass --target {floor.package}={format_release(now.release_of(floor.package))}"


def _fixes_behind_place(file_work: FileInProgress, place: int, line: int) -> list[AppliedFix]:
    """The fixes that wrote what stands at a place, else those that changed its line, else all of the file."""
    wrote = [made for made in file_work.made if any(place in part for part in _ranges_written_by(file_work, made))]
    return wrote or [made for made in file_work.made if line in file_work.changed_lines(made)] or file_work.made


def _ranges_written_by(file_work: FileInProgress, applied_fix: AppliedFix) -> Iterator[range]:
    """Where the text that a fix wrote is by now."""
    for edit in applied_fix.finding.fix.edits if applied_fix.finding.fix is not None else ():
        first = forward_through(file_work.layers[applied_fix.layer :], edit.start)
        yield range(first, first + len(edit.text))


def _findings_on_releases(
    attempt: Attempt, works: list[FileInProgress], options: Options, *, as_it_was: bool
) -> list[list[Finding]]:
    """The findings of the changed files for other releases, as they were or as they are by now."""
    texts = attempt.beside if as_it_was else attempt.changed_texts()
    checker = Checker(options, dict(texts), attempt.places)
    found = []
    for work in works:
        outcome = checker.check_file(work.path, (work.before if as_it_was else work.after).encode_file())
        found.append(outcome.report.findings if outcome.report is not None else [])
    checker.let_go()
    return found


def _breaks_program(finding: Finding) -> bool:
    """Return whether the program surely raises or behaves differently on that release."""
    return (
        finding.certainty is Certainty.PROVEN
        and finding.harm is not Harm.COST
        and finding.rule.code not in _WORKS
    )
