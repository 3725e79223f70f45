"""The report people read: a frame for each finding, or one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shardlint.output import by_project
from shardlint.output.phrases import format_count, format_place, format_tags
from shardlint.output.printable import as_sentence, make_printable
from shardlint.output.terminal_style import PLAIN, TerminalStyle

if TYPE_CHECKING:
    from pathlib import Path

    from shardlint.engine.results import FileReport, Report
    from shardlint.rules_api.rule import Finding, Fix
    from shardlint.source.text import Source

_TAB = 4
# Of more files that were left out for the same reason, one is named.
_ALIKE = 3


def full_report(
    report: Report, asked: frozenset[str] = frozenset(), look: TerminalStyle = PLAIN, quiet: bool = False
) -> Iterator[str]:
    """A frame for each finding: the line, the code underlined, what happens, what to write.

    Of a rule that finds the same all over a project it is one line, and of findings with the same words one frame and
    the other places, unless their code is `asked` for.
    """
    from shardlint.output.repeated_findings import Alike

    reports, many, rest = by_project.separate_groups(report.reports, report.root, asked)
    alike = Alike(reports, asked)
    for file in reports:
        yield from render_frames(file, alike.note_for, look, alike.is_shown)
    yield from by_project.group_frames(many, obstacles=False)
    if asked:
        yield from by_project.list_groups(rest)
    yield from closing_lines(report, quiet)


def render_frames(
    file: FileReport,
    note: Callable[[Finding], str] = lambda _: "",
    look: TerminalStyle = PLAIN,
    shown: Callable[[Finding], bool] = lambda _: True,
) -> Iterator[str]:
    """A frame for each finding of a file that is `shown`, with a note under it if there is one, and an empty line."""
    for finding in filter(shown, file.findings):
        said = note(finding)
        yield "\n".join(
            [*_frame_lines(file, finding, look), *(look.wrap_prose(make_printable(said)) if said else [])]
        )
        yield ""


def render_concise(report: Report, look: TerminalStyle = PLAIN, quiet: bool = False) -> Iterator[str]:
    """One line for each finding, as editors and grep like it."""
    for file in report.reports:
        for finding in file.findings:
            yield f"{look.format_place(file.path, format_place(file, finding))} {_title_line(finding, look)}"
    yield from closing_lines(report, quiet)


def grouped_report(report: Report, look: TerminalStyle = PLAIN, quiet: bool = False) -> Iterator[str]:
    """The findings under the name of their file, a line each."""
    for file in report.reports:
        yield look.format_heading(file.path)
        places = [format_place(file, finding).partition(":")[2] for finding in file.findings]
        width = max(map(len, places))
        for at, finding in zip(places, file.findings, strict=True):
            yield f"  {at:<{width}}  {_title_line(finding, look)}"
        yield ""
    yield from closing_lines(report, quiet)


def closing_lines(report: Report, quiet: bool = False) -> Iterator[str]:
    """The lines below the findings: what was not checked, the releases that were assumed, the counts.

    If `quiet`, only what was not checked, and only if that makes the run a failure.
    """
    if not quiet or report.is_incomplete:
        yield from skipped_files(report)
    if quiet:
        return
    yield from assumed_releases(report)
    yield summary_line(report)


def _title_line(finding: Finding, look: TerminalStyle) -> str:
    tags = look.style_faint(f"[{format_tags(finding)}]")
    return f"{look.format_rule(finding)} {tags} {make_printable(finding.message)}"


def assumed_releases(report: Report) -> Iterator[str]:
    """The releases that the findings speak of and that nothing in the project says, a line for projects alike."""
    from shardlint.config.folders import shown_folder

    lines: dict[str, list[str]] = {}
    told = [file for file in report.reports if any(not _is_own(finding) for finding in file.findings)]
    projects = report.find_targets([file.path for file in told]) if told else {}
    messages = " ".join(f"{finding.message} {finding.why}" for file in told for finding in file.findings)
    for root, targets in projects.items():
        releases = [
            f"{package} {release} (assumed: no file pins it)"
            for package, release in targets.assumed_versions().items()
            if package == "jax" or f"{package} {release}" in messages
        ]
        if releases:
            lines.setdefault(", ".join(releases), []).append(make_printable(shown_folder(root)))
    for text, roots in lines.items():
        where = "" if len(projects) == 1 else f" in {_list_some(roots)}"
        yield f"Checked for {text}{where}; --target says another release."


def _assumed_for(report: Report) -> str:
    """Where nothing was found: the release of jax that this holds for, if nothing in the project says it."""
    from shardlint.config.folders import shown_folder

    projects = report.find_targets(report.concerned) if report.concerned else {}
    assumed = {root: targets.assumed_versions().get("jax", "") for root, targets in projects.items()}
    releases = sorted(set(assumed.values()) - {""})
    if not releases:
        return ""
    where = [make_printable(shown_folder(root)) for root, release in assumed.items() if release]
    them = f" in {_list_some(where)}" if len(where) < len(assumed) else ""
    return f" for jax {', '.join(releases)} (assumed: no file pins it{them})"


def _list_some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {format_count(len(names) - 3, 'other folder')}"


def summary_line(report: Report) -> str:
    """The last line: how much was found in how many files, what was not checked, and what `fix` would do."""
    files = format_count(report.checked_count, "file") + _describe_unchecked(report)
    if not report.files and not report.skipped:
        if report.since is not None:
            return f"Nothing to check: no Python file changed since {make_printable(report.since)}."
        return f"Nothing to check: {report.reason_for_no_files}."
    if not report.checked_count and not report.finding_count:
        return f"Nothing was checked{_describe_unchecked(report)}."
    if not report.finding_count:
        new = " new" if report.known else ""
        return f"No{new} findings{_assumed_for(report)} in {files}.{_describe_baselined(report)}"
    found = [finding for file in report.reports for finding in file.findings]
    safe = sum(finding.fix is not None and finding.fix.safety == "safe" for finding in found)
    unsafe = sum(finding.fix is not None and finding.fix.safety == "unsafe" for finding in found)
    text = f"{format_count(len(found), 'new finding' if report.known else 'finding')} in {files}."
    if report.elsewhere:
        text += (
            f" In other files because of what these say: {report.elsewhere} (--no-elsewhere leaves that out)."
        )
    text += _describe_baselined(report)
    if safe:
        text += f" `shardlint fix` fixes {safe}."
    if unsafe:
        text += f" `shardlint fix --unsafe-fixes` fixes {unsafe if not safe else f'{unsafe} more'}."
    return text


def _describe_baselined(report: Report) -> str:
    """Return the sentence about findings in the baselines."""
    from pathlib import Path

    if not report.baselines:
        return ""
    name = make_printable(Path(report.baselines[0]).name)
    where = name if len(report.baselines) == 1 else f"{len(report.baselines)} baselines"
    gone = f", {report.gone} gone" if report.gone else ""
    do = (
        ""
        if not report.gone
        else " from it now; commit it"
        if report.shrunk
        else "; `shardlint baseline` takes them out"
    )
    return f" Known in {where}: {report.known}{gone}{do}."


def _describe_unchecked(report: Report) -> str:
    """How many files were not checked, or not by every rule."""
    excluded, others = report.excluded, len(report.skipped) - report.excluded
    partly = len({path for path, _ in report.faults})
    parts = [
        f"{others} not checked" if others else "",
        f"{excluded} excluded by the settings" if excluded else "",
        f"{partly} of them not by every rule" if partly else "",
    ]
    return "".join(f", {part}" for part in parts if part)


def _is_own(finding: Finding) -> bool:
    return finding.rule.code in ("SL001", "SL002", "SL003")


def skipped_files(report: Report) -> Iterator[str]:
    """The files that were not checked, or not by every rule, with the reasons."""
    reported = {
        file.path for file in report.reports for finding in file.findings if finding.rule.code == "SL001"
    }
    alike: dict[str, list[Path]] = {}
    for path, reason in report.skipped:
        if path not in reported:
            alike.setdefault(reason, []).append(path)
    for reason, paths in alike.items():
        if len(paths) > _ALIKE:
            yield make_printable(f"{paths[0]} and {len(paths) - 1} others: not checked: {reason}")
        else:
            yield from (make_printable(f"{path}: not checked: {reason}") for path in paths)
    for path, fault in report.faults:
        yield make_printable(f"{path}: not complete: {fault.reason}")
    for path in report.missing:
        yield make_printable(f"{path}: no such file or directory")


def _frame_lines(file: FileReport, finding: Finding, look: TerminalStyle) -> Iterator[str]:
    source = file.source
    line, column = source.position_of(finding.start)
    where = look.format_place(file.path, format_place(file, finding))
    yield f"{where} {look.format_rule(finding)}  {look.style_faint(f'[{format_tags(finding)}]')}"
    for text in finding.message.splitlines():
        yield from look.wrap_prose(make_printable(text))
    if source.text:
        yield from _underline_lines(source, finding, line, column, look)
    if finding.why:
        yield from look.wrap_prose(f"Why: {make_printable(finding.why)}")
    if finding.fix is not None:
        yield from look.wrap_prose(make_printable(fix_advice(finding.fix)), look.style_advice)
    elif finding.help:
        from shardlint.rules_api.rule import NO_FIX  # late: most runs find nothing

        told, _, kept = finding.help.partition(f"; {NO_FIX}")
        yield from look.wrap_prose(make_printable(as_sentence(told)), look.style_advice)
        if kept:
            yield from look.wrap_prose(f"Not rewritten: {make_printable(kept)}")


def fix_advice(fix: Fix) -> str:
    """Return the advice of a fix, with a note if the fix is unsafe."""
    note = "" if fix.safety == "safe" else f"   (unsafe fix: {fix.why})" if fix.why else "   (unsafe fix)"
    return f"{as_sentence(fix.message)}{note}"


def _underline_lines(source: Source, finding: Finding, line: int, column: int, look: TerminalStyle) -> Iterator[str]:
    text, before = source.shown_line_at(finding.start)
    last_line, last_column = source.position_of(finding.end)
    stop = last_column - 1 - before if last_line == line else len(text.rstrip())
    start = column - 1 - before
    most = look.code_width
    if start > most - min(40, most // 2):  # a very long line: show the part that matters
        cut = start - 20
        text, start, stop = "…" + text[cut:], start - cut + 1, stop - cut + 1
    shown = text[:most] + ("…" if len(text) > most else "")
    stop = max(min(stop, most), start + 1)
    gutter = f"{source.locate_offset(finding.start)[1]:>5}"
    yield f"{look.style_gutter(f'{gutter} |')} {make_printable(shown.expandtabs(_TAB))}"
    pad, mark = _column_count(text[:start]), max(1, _column_count(text[:stop]) - _column_count(text[:start]))
    label = f" {make_printable(finding.label)}" if finding.label else ""
    under = look.style_underline("^" * mark + label, finding)
    yield f"{look.style_gutter(' ' * len(gutter) + ' |')} {' ' * pad}{under}".rstrip()


def _column_count(text: str) -> int:
    """How many terminal columns a text takes as it is shown: wide characters take two, combining ones none."""
    if text.isascii():
        return len(make_printable(text.expandtabs(_TAB)))
    import unicodedata

    width = 0
    for character in make_printable(text.expandtabs(_TAB)):
        if unicodedata.combining(character):
            continue
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width
