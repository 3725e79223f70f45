"""How many findings each rule has, in place of the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.output.printable import make_printable
from shardlint.output.terminal_style import PLAIN, TerminalStyle
from shardlint.output.text import closing_lines

if TYPE_CHECKING:
    from shardlint.engine.results import Report
    from shardlint.rules_api.rule import Finding


def statistics_lines(report: Report, look: TerminalStyle = PLAIN, quiet: bool = False) -> Iterator[str]:
    """A line a rule, the most frequent first: how many, how many files, and how many of them `fix` fixes."""
    found: dict[str, list[Finding]] = {}
    files: Counter[str] = Counter()
    for file in report.reports:
        for finding in file.findings:
            found.setdefault(finding.rule.code, []).append(finding)
        files.update({finding.rule.code for finding in file.findings})
    width = max((len(str(len(many))) for many in found.values()), default=1)
    for code, many in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        fixes = Counter(one.fix.safety.value for one in many if one.fix is not None)
        told = ", ".join(f"{number} {safety}" for safety, number in sorted(fixes.items()))
        where = f"{files[code]} file{'' if files[code] == 1 else 's'}"
        tail = look.style_faint(
            f"[{make_printable(many[0].harm.value)}]  in {where}" + (f"; fixes: {told}" if told else "")
        )
        yield f"{len(many):>{width}}  {look.format_rule(many[0])}  {tail}"
    if found and not quiet:
        yield ""
    yield from closing_lines(report, quiet)
