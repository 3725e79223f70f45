"""Findings to comments that silence them: `check --add-suppressions REASON`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.folders import Places
from shardlint.engine.one_file import Checker
from shardlint.rewrite.fix import write_atomically
from shardlint.source.lazy import dataclass
from shardlint.source.suppress import Suppression, find_suppressions, statement_spans
from shardlint.source.text import Source, Unreadable

if TYPE_CHECKING:
    from shardlint.engine.results import FileReport, Options, Report

# A comment that makes a line longer than this, and than the longest of its file, gets a line of its own.
_WIDTH = 88


@dataclass
class Silenced:
    """Result of adding suppressions: counts of findings and files, and the files that could not be changed."""

    findings: int = 0
    files: int = 0
    problems: list[tuple[Path, str]] = field(default_factory=list)


def silence_findings(report: Report, options: Options, reason: str) -> Silenced:
    """Write a comment with the reason for each finding; what shardlint says of itself (SL0) is left.

    Each file is checked again with its comments before it is written: nothing may be left of what they silence.
    """
    done = Silenced()
    for file in report.reports:
        wanted = [one for one in file.findings if not one.rule.code.startswith("SL0")]
        if not wanted:
            continue
        source = file.source
        try:
            after = source.with_text(with_comments(file, reason))
            left = _rules_left(file.path, after, options, Path(report.root(file.path)))
            if left:
                raise Unreadable(f"no comment can suppress {', '.join(left)} here")
            write_atomically(file.path, after.encode_file(), expected=source.encode_file())
        except (OSError, Unreadable) as error:
            done.problems.append((file.path, str(error)))
            continue
        done.findings += len(wanted)
        done.files += 1
        file.findings[:] = [one for one in file.findings if one.rule.code.startswith("SL0")]
    report.reports = [file for file in report.reports if file.findings]
    return done


def _rules_left(path: Path, after: Source, options: Options, root: Path) -> list[str]:
    """The rules that still find something, or that find something new about the comments."""
    overlay = {Path(os.path.realpath(path)): after}
    checker = Checker(options, overlay, Places(config=options.config, paths=[root]))
    outcome = checker.check_file(path, after.encode_file())
    found = outcome.report.findings if outcome.report is not None else []
    return sorted({one.rule.code for one in found if one.rule.code not in ("SL002", "SL003")})


def with_comments(file: FileReport, reason: str) -> str:
    """The text with comments that silence the findings of a file."""
    source = file.source
    heads = statement_spans(source.text)
    comments = {
        one.line: one for one in find_suppressions(source.text, source.line_starts) if one.kind == "ignore"
    }
    codes: dict[tuple[int, int], list[str]] = {}
    for finding in file.findings:
        if finding.rule.code.startswith("SL0"):
            continue
        line = source.position_of(finding.start)[0]
        lines = next((head for head in heads if head[0] <= line <= head[1]), (line, line))
        here = codes.setdefault(lines, [])
        if finding.rule.code not in here:
            here.append(finding.rule.code)
    longest = max([_WIDTH, *(len(source.line_text(number + 1)) for number in range(len(source.line_starts)))])
    edits = [
        _suppression_edit(source, lines, found, comments.get(lines[1]), reason, longest)
        for lines, found in codes.items()
    ]
    text = source.text
    for start, end, said in sorted(edits, reverse=True):
        text = text[:start] + said + text[end:]
    return text


def _suppression_edit(
    source: Source,
    lines: tuple[int, int],
    codes: Sequence[str],
    comment: Suppression | None,
    reason: str,
    longest: int,
) -> tuple[int, int, str]:
    """Where to write what. A comment that is there already gets the codes too."""
    if comment is not None and comment.codes:
        text = source.text[comment.offset : comment.end]
        inside = ", ".join([*comment.codes, *codes])
        return comment.offset, comment.end, text[: text.index("[") + 1] + inside + text[text.index("]") :]
    last = source.line_text(lines[1])
    end = source.line_starts[lines[1] - 1] + len(last.rstrip())
    said = f"  # shardlint: ignore[{_join_codes(codes)}] {reason}"
    if len(last.rstrip()) + len(said) <= longest:
        return end, end + len(last) - len(last.rstrip()), said
    first = source.line_text(lines[0])
    indent = first[: len(first) - len(first.lstrip())]
    begin = source.line_starts[lines[0] - 1]
    return (
        begin,
        begin,
        f"{indent}# shardlint: ignore-next-line[{_join_codes(codes)}] {reason}{source.common_newline}",
    )


def _join_codes(codes: Iterable[str]) -> str:
    return ", ".join(sorted(codes))
