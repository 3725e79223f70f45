"""A summary for a pull request, in the Markdown of GitHub and GitLab."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from shardlint.output.phrases import format_count
from shardlint.output.printable import make_printable
from shardlint.output.rows import Row, finding_rows, left_out

if TYPE_CHECKING:
    from shardlint.engine.results import Report

# GitHub takes 65,536 characters in a comment.
_MOST = 60_000
_SHOWN = 300


def markdown_report(report: Report) -> str:
    """A heading with the counts and a row for each finding, as many as a comment may hold."""
    found = list(finding_rows(report))
    files = format_count(report.checked_count, "file")
    lines = [f"### shardlint: {format_count(len(found), 'finding') if found else 'no findings'} in {files}", ""]
    skipped = list(left_out(report))
    tail = [f"- {_escape_cell(path)}: {_escape_cell(reason)}" for path, reason in skipped[:20]]
    tail += [f"- and {len(skipped) - 20} more"] if len(skipped) > 20 else []
    if found:
        lines += ["| where | what | write |", "|---|---|---|"]
    room = _MOST - sum(map(len, (*lines, *tail)))
    shown = 0
    for row in found:
        message, advice = _escape_cell(row.message), _escape_cell(row.advice)
        line = f"| {_place_link(row)} | {_rule_title(row)}<br>{message} | {advice} |"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
        shown += 1
    if shown < len(found):
        lines += ["", f"{format_count(len(found) - shown, 'more finding')}: run `shardlint check` to see all."]
    fixes = [row.finding.fix.safety for row in found if row.finding.fix is not None]
    if fixes:
        option = "" if all(safety == "safe" for safety in fixes) else " --unsafe-fixes"
        lines += ["", f"`shardlint fix{option}` fixes {len(fixes)}."]
    if tail:
        lines += ["", "Not everything was checked:", "", *tail]
    return "\n".join(lines).strip()


def _place_link(row: Row) -> str:
    shown = f"{_escape_cell(row.path)}:{row.line}"
    server, repository, commit = (
        os.environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    )
    if all((server, repository, commit)) and not row.file_uri.startswith("file:"):
        return f"[{shown}]({server}/{repository}/blob/{commit}/{row.file_uri}#L{row.line})"
    project, commit = os.environ.get("CI_PROJECT_URL", ""), os.environ.get("CI_COMMIT_SHA", "")
    if project and commit and not row.file_uri.startswith("file:"):
        return f"[{shown}]({project}/-/blob/{commit}/{row.file_uri}#L{row.line})"
    return shown


def _rule_title(row: Row) -> str:
    code = f"[{row.rule_code}]({row.rule_page_address})" if row.rule_page_address else row.rule_code
    return f"**{code} {row.finding.rule.name}** ({row.finding.harm.value}, {row.finding.certainty.value})"


def _escape_cell(text: str) -> str:
    """Text in a cell of a table, in which nothing means anything."""
    text = _cut_text(make_printable(" ".join(text.split())))
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", text).replace("@", "@\u200b")


def _cut_text(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
