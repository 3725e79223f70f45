"""Check of the fixed files of a project: fixes that leave their finding in place, and fixes that add one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.engine.results import Outcome
from shardlint.rewrite.edits import forward_through
from shardlint.rewrite.oldest_releases import fixes_breaking_oldest
from shardlint.rewrite.project_fixes import AppliedFix, Attempt, FileInProgress
from shardlint.rules_api.rule import Certainty, Finding, Harm

# More attempts than this, and nothing of the project is fixed.
_ATTEMPTS = 6
# Up to here each changed file is tried alone to tell which of them brings a finding to another.
_TRIED_ALONE = 30


def carry_out(attempt: Attempt) -> dict[str, Outcome]:
    """Run an attempt until all that it makes holds; what the check of the result says of each file, by path.

    Fixes that leave their finding in place, bring another, or break the project on the oldest releases it allows are
    refused, and the attempt is made anew without them.
    """
    for turn in range(_ATTEMPTS):
        attempt.apply_fixes()
        if not any(work.is_changed for work in attempt.works.values()):
            return {}
        after: dict[str, Outcome] = {}
        bad = list(attempt.incomplete_changes())
        if not bad:
            after = _check_changed_files(attempt)
            bad = list(_fixes_to_refuse(attempt, after)) or list(fixes_breaking_oldest(attempt))
        if not bad:
            return after
        last = turn == _ATTEMPTS - 2
        for made, why in _refuse_all(attempt, bad[0][1]) if last else bad:
            attempt.refused.refuse_fix(made, why)
    return {}


def _refuse_all(attempt: Attempt, why: str) -> Iterator[tuple[AppliedFix, str]]:
    for work in attempt.works.values():
        yield from ((made, why) for made in work.made)


def _check_changed_files(attempt: Attempt) -> dict[str, Outcome]:
    """All files that are not quiet, as they would be."""
    checker = attempt.overlay_checker()
    found = {}
    for outcome in attempt.outcomes:
        if outcome.quiet:
            continue
        work = attempt.works.get(outcome.path)
        data = work.after.encode_file() if work is not None and work.is_changed else None
        found[str(outcome.path)] = checker.check_file(outcome.path, data)
    checker.let_go()
    return found


def _fixes_to_refuse(attempt: Attempt, after: dict[str, Outcome]) -> Iterator[tuple[AppliedFix, str]]:
    """The fixes that are not to be made, with the reason."""
    for outcome in attempt.outcomes:
        again = after.get(str(outcome.path))
        if again is None:
            continue
        work = attempt.works.get(outcome.path)
        now = again.report.findings if again.report is not None else []
        if again.reason is not None and again.reason != outcome.reason:
            made = work.made if work is not None else []
            yield from ((one, f"after the fixes, {again.reason}") for one in made)
            continue
        if work is None:
            for finding in now:
                yield from _fixes_of_other_files(attempt, again, finding)
            continue
        kept, new = _compare_findings(work, now)
        yield from ((made, "the finding would remain after the fix") for made in kept)
        for finding in new:
            line = work.after.position_of(finding.start)[0]
            why = work.after.translate_message(f"it would cause {finding.rule.code} at line {line}")
            near = _culprit_fixes(attempt, outcome, work, finding)
            yield from ((made, why) for made in near)
            if not near:
                yield from _fixes_of_other_files(attempt, again, finding)


def _compare_findings(file_work: FileInProgress, now: Sequence[Finding]) -> tuple[list[AppliedFix], list[Finding]]:
    """The fixes whose finding is still there, and the findings that were not there before."""
    rest = list(now)
    kept = []
    for made in file_work.made:
        place = file_work.current_start(made)
        same = [one for one in rest if one.rule.code == made.finding.rule.code and one.start == place]
        if same:
            kept.append(made)
            rest.remove(same[0])
    fixed = {(made.finding.rule.code, made.origin) for made in file_work.made}
    before = [one for one in file_work.first if (one.rule.code, one.start) not in fixed]
    for match in (_same_place, _same_origin):
        for one in list(before):
            found = next((other for other in rest if match(file_work, one, other)), None)
            if found is not None:
                before.remove(one)
                rest.remove(found)
    fixes = [made.finding.fix for made in file_work.made if made.finding.fix is not None]
    uncovered = {code for fix in fixes for code in fix.uncovers}
    return kept, [one for one in rest if one.rule.code not in uncovered and not _was_behind_a_crash(file_work, one)]


def _was_behind_a_crash(file_work: FileInProgress, finding: Finding) -> bool:
    """Return whether a finding is about lines that a fix wrote in place of a proven crash, and does not raise itself.
    The program did not reach them before, so the finding is reported.
    """
    if finding.harm is Harm.CRASH:
        return False
    line = file_work.after.position_of(finding.start)[0]
    return any(
        made.finding.harm is Harm.CRASH
        and made.finding.certainty is Certainty.PROVEN
        and line in file_work.changed_lines(made)
        for made in file_work.made
    )


def _same_place(file_work: FileInProgress, before: Finding, now: Finding) -> bool:
    return before.rule.code == now.rule.code and forward_through(file_work.layers, before.start) == now.start


def _same_origin(file_work: FileInProgress, before: Finding, now: Finding) -> bool:
    """Within what was written anew, where an old place is told only by where the old text began."""
    place = forward_through(file_work.layers, before.start)
    return before.rule.code == now.rule.code and place == forward_through(
        file_work.layers, file_work.original_start(now)
    )


def _culprit_fixes(attempt: Attempt, outcome: Outcome, file_work: FileInProgress, finding: Finding) -> list[AppliedFix]:
    """The fixes of a file that bring a finding: the first few, nearest first, without which it is not there."""
    parts = _nearest_first(file_work, finding)
    for part in parts[:_TRIED_ALONE]:
        alone = Attempt(
            [outcome], attempt.options, attempt.unsafe, str(attempt.root), attempt.places, attempt.beside
        )
        alone.wanted, alone.make_checker = attempt.wanted, attempt.make_checker
        alone.refused = attempt.refused.copy_refusals()
        for made in part:
            alone.refused.refuse_fix(made, "to see the failures")
        alone.apply_fixes()
        left = alone.works[outcome.path]
        if not any(_are_same_findings(file_work, left, finding, one) for one in left.findings):
            return part
    return parts[0] if parts else []


def _are_same_findings(file_work: FileInProgress, other: FileInProgress, one: Finding, two: Finding) -> bool:
    """Return whether findings of two outcomes of a file are the same."""
    return one.rule.code == two.rule.code and file_work.original_start(one) == other.original_start(two)


def _nearest_first(file_work: FileInProgress, finding: Finding) -> list[list[AppliedFix]]:
    """The fixes of a file in parts: those on the finding's line, in the statements around it, then one by one."""
    line = file_work.after.position_of(finding.start)[0]
    tree = ast.parse(file_work.after.text.removeprefix("\ufeff"))
    parts = [
        (node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree) if isinstance(node, ast.stmt)
    ]
    around = sorted((last - first, first, last) for first, last in parts if first <= line <= last)
    found: list[list[AppliedFix]] = []
    for _, first, last in around:
        near = [made for made in file_work.made if any(first <= one <= last for one in file_work.changed_lines(made))]
        if near and near not in found:
            found.append(near)
    smallest = found[:1]
    return [*smallest, *([made] for made in file_work.made), *found[1:], file_work.made] if file_work.made else []


def _fixes_of_other_files(attempt: Attempt, again: Outcome, finding: Finding) -> Iterator[tuple[AppliedFix, str]]:
    """The fixes of other files that bring a finding to a file: those of one that does it alone, else all."""
    why = f"it would cause {finding.rule.code} in {again.path.name}"
    changed = [work for work in attempt.works.values() if work.is_changed]
    for work in changed[:_TRIED_ALONE]:
        alone = attempt.overlay_checker({**attempt.beside, work.path.resolve(): work.after})
        seen = alone.check_file(again.path)
        found = seen.report.findings if seen.report is not None else []
        alone.let_go()
        if any((one.rule.code, one.start) == (finding.rule.code, finding.start) for one in found):
            yield from ((made, why) for made in work.made)
            return
    yield from _refuse_all(attempt, why)
