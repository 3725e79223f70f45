"""Suppression comments: the findings they silence, and findings about the comments themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shardlint.config.certainty import Certainty
from shardlint.rules_api.builtin import SuppressionWithoutReason, UnusedSuppression
from shardlint.rules_api.rule import Edit, Finding, Fix, Safety
from shardlint.source.suppress import Suppression, is_code, selects_rule
from shardlint.source.text import Source


def unsuppressed_findings(
    source: Source, findings: Iterable[Finding], comments: Sequence[Suppression], least: Certainty
) -> Iterator[Finding]:
    """The findings that no comment silences. Comments that silence some are told so."""
    for finding in findings:
        first = source.position_of(finding.start)[0]
        last = source.position_of(max(finding.start, finding.end - 1))[0]
        rule = finding.rule.code, finding.rule.name
        covering = [comment for comment in comments if comment.silences_finding(*rule, first, last)]
        for comment in covering:
            comment.mark_used(*rule)
        if not covering and finding.certainty.is_at_least(least):
            yield finding


def comment_findings(
    source: Source, comments: Sequence[Suppression], ran: frozenset[str] | None
) -> Iterator[Finding]:
    """Findings about the comments, once all that they silence is known.

    `ran` are the rules that looked at the file; None where one of them failed, so that nobody knows what is unused.
    """
    for comment in comments:
        if ran is not None:
            yield from _report_unused_codes(source, comment, ran)
        if not comment.reason:
            yield Finding(
                SuppressionWithoutReason, comment.offset, comment.end, "", "The suppression gives no reason.",
                help="write the reason after the bracket", harm=SuppressionWithoutReason.harm,
            )  # fmt: skip


def _report_unused_codes(source: Source, comment: Suppression, ran: frozenset[str]) -> list[Finding]:
    meant = {said: _codes_meant(said) for said in comment.codes}
    unknown = [said for said, codes in meant.items() if not codes]
    idle = [said for said, codes in meant.items() if said not in comment.used and (not codes or codes & ran)]
    if (comment.codes and not idle) or (not comment.codes and comment.used):
        return []
    whole = not comment.codes or len(idle) == len(comment.codes)
    what = "The comment" if whole else ", ".join(idle)
    message = f"{what} suppresses no finding here, and would hide the next mistake on this line."
    if comment.misspelt or unknown:  # what is meant is for people to say
        kind = comment.kind
        wrong = (
            f"No rule is called {', '.join(unknown)}{_suggest_near(unknown)}."
            if unknown
            else "The suppression names no code in brackets."
        )
        return [
            Finding(UnusedSuppression, comment.offset, comment.end, "", wrong,
                    help=f"write `# shardlint: {kind}[SL201]` with the codes to suppress",
                    harm=UnusedSuppression.harm)
        ]  # fmt: skip
    if whole:
        edit = _remove_comment(source, comment)
    else:
        text = source.text[comment.offset : comment.end]
        left = ", ".join(code for code in comment.codes if code not in idle)
        inside = text[: text.index("[") + 1] + left + text[text.index("]") :]
        edit = Edit(comment.offset, comment.end, inside)
    fix = Fix(Safety.SAFE, "remove the comment" if whole else "remove the code", (edit,))
    return [
        Finding(UnusedSuppression, comment.offset, comment.end, "", message,
                harm=UnusedSuppression.harm, fix=fix)
    ]  # fmt: skip


def _codes_meant(said: str) -> frozenset[str]:
    """The codes of the rules that a comment names."""
    from shardlint.rules_api.registry import rule_entries, rule_metadata

    if said in rule_entries():
        return frozenset((said,))
    if is_code(said):
        found = frozenset(code for code in rule_entries() if selects_rule(said, code, ""))
        if found or any(character.isdigit() for character in said):
            return found
    return frozenset(rule.code for rule in rule_metadata().values() if selects_rule(said, rule.code, rule.name))


def _suggest_near(unknown: Sequence[str]) -> str:
    from shardlint.rules_api.registry import similar_selectors

    found = [one for said in unknown for one in similar_selectors(said)[:1]]
    return f" (did you mean {', '.join(found)}?)" if found else ""


def _remove_comment(source: Source, comment: Suppression) -> Edit:
    """Take a comment away: with its line when it stands alone, with the blanks before it when it ends one."""
    line = source.position_of(comment.offset)[0]
    begin = source.line_starts[line - 1]
    end = source.line_starts[line] if line < len(source.line_starts) else len(source.text)
    before, after = source.text[begin : comment.offset], source.text[comment.end : end]
    if after.strip():  # another comment follows
        return Edit(comment.offset, comment.end + len(after) - len(after.lstrip()), "")
    if not before.strip():
        return Edit(begin, end, "")
    return Edit(begin + len(before.rstrip(" \t")), comment.end, "")
