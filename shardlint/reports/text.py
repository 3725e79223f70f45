"""The report people read: a frame for each finding, or one line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.plain import plain

if TYPE_CHECKING:
    from shardlint.outcome import FileReport, Report
    from shardlint.rule import Finding, Fix
    from shardlint.sources.text import Source

_WIDTH = 200
_TAB = 4


def full(report: Report) -> Iterator[str]:
    """A frame for each finding: the line, the code underlined, what happens, what to write."""
    for file in report.reports:
        for finding in file.findings:
            yield "\n".join(_frame(file, finding))
            yield ""
    yield from _skipped(report)
    yield summary(report)


def concise(report: Report) -> Iterator[str]:
    """One line for each finding, as editors and grep like it."""
    for file in report.reports:
        for finding in file.findings:
            line, column = file.source.position(finding.start)
            head = finding.message if not finding.label else f"{finding.label}: {finding.message}"
            yield plain(
                f"{_shown(file)}:{line}:{column}: {finding.rule.code} {finding.rule.name} [{tags(finding)}] {head}"
            )
    yield from _skipped(report)
    yield summary(report)


def summary(report: Report) -> str:
    """The last line: how much was found in how many files, and what `fix` would do."""
    files = _count(report.files, "file")
    if not report.findings:
        return f"No findings in {files}." if report.files else "No Python files found."
    found = [finding for file in report.reports for finding in file.findings]
    safe = sum(finding.fix is not None and finding.fix.safety == "safe" for finding in found)
    unsafe = sum(finding.fix is not None and finding.fix.safety == "unsafe" for finding in found)
    text = f"{_count(len(found), 'finding')} in {files}."
    if safe:
        text += f" `shardlint fix` mends {safe}."
    if unsafe:
        text += f" `shardlint fix --unsafe-fixes` mends {unsafe if not safe else f'{unsafe} more'}."
    return text


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _skipped(report: Report) -> Iterator[str]:
    reported = {
        file.path for file in report.reports for finding in file.findings if finding.rule.code == "SL001"
    }
    for path, reason in report.skipped:
        if path not in reported:
            yield plain(f"{path}: not checked: {reason}")
    for path in report.missing:
        yield plain(f"{path}: no such file or directory")


def tags(finding: Finding) -> str:
    """The harm, and "likely" where the text does not prove it."""
    return finding.harm.value if finding.certainty == "proven" else f"{finding.harm.value}, likely"


def _shown(file: FileReport) -> str:
    return str(file.path)


def _frame(file: FileReport, finding: Finding) -> Iterator[str]:
    source = file.source
    line, column = source.position(finding.start)
    yield plain(f"{_shown(file)}:{line}:{column}: {finding.rule.code} {finding.rule.name}  [{tags(finding)}]")
    if source.text:
        yield from _underlined(source, finding, line, column)
    for text in finding.message.splitlines():
        yield "   " + plain(text)
    if finding.fix is not None:
        yield "   " + plain(_advice(finding.fix))
    elif finding.help:
        yield "   " + plain(finding.help[0].upper() + finding.help[1:])


def _advice(fix: Fix) -> str:
    note = "" if fix.safety == "safe" else f"   (unsafe fix: {fix.why})" if fix.why else "   (unsafe fix)"
    return f"{fix.message[0].upper()}{fix.message[1:]}{note}"


def _underlined(source: Source, finding: Finding, line: int, column: int) -> Iterator[str]:
    text = source.line_at(finding.start)
    last_line, last_column = source.position(finding.end)
    stop = last_column - 1 if last_line == line else len(text.rstrip())
    start = column - 1
    if start > _WIDTH - 40:  # a very long line: show the part that matters
        cut = start - 20
        text, start, stop = "…" + text[cut:], start - cut + 1, stop - cut + 1
    shown = text[:_WIDTH] + ("…" if len(text) > _WIDTH else "")
    stop = max(min(stop, _WIDTH), start + 1)
    gutter = f"{line:>5}"
    yield f"{gutter} | {plain(shown.expandtabs(_TAB))}"
    pad, mark = _columns(text[:start]), max(1, _columns(text[:stop]) - _columns(text[:start]))
    label = f" {plain(finding.label)}" if finding.label else ""
    yield f"{' ' * len(gutter)} | {' ' * pad}{'^' * mark}{label}".rstrip()


def _columns(text: str) -> int:
    """How many terminal columns a text takes as it is shown: wide characters take two, combining ones none."""
    if text.isascii():
        return len(plain(text.expandtabs(_TAB)))
    import unicodedata

    width = 0
    for character in plain(text.expandtabs(_TAB)):
        if unicodedata.combining(character):
            continue
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width
