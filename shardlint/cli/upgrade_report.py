"""Markdown report of an upgrade for a pull request: its changes and the remaining work, by file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from shardlint import __version__
from shardlint.config.folders import shown_folder
from shardlint.config.pins import read_pins
from shardlint.config.versions import format_release, is_release_allowed, parse_release
from shardlint.output import by_project
from shardlint.output.phrases import format_count
from shardlint.output.printable import as_sentence, make_printable
from shardlint.rewrite.fix import FixedFile, FixReport, unified_diff
from shardlint.rules_api.rule import NO_FIX, TOGETHER, Finding
from shardlint.source.text import Source

_CODE = re.compile(r"(`[^`]*`)")
_ENTERED = re.compile(r"jax\.set_mesh\([^:]*\)(?=:)")
# Where a reason stands: `line 6 of cell 9: `, `train.py:12: `, `a.ipynb:cell 9:6: `.
_PLACE = re.compile(r"\A(?:line \d+(?: of cell \d+)?|[^:`]+:(?:cell \d+:)?\d+): ")
# What Markdown would take for its own where it stands in prose.
_MARKS = re.compile(r"([\\*<>\[\]|#~]|\b_|_\b)")


def render_upgrade_report(report: FixReport, targets: Mapping[str, str], written: bool) -> Iterator[str]:
    """The report, block by block. What was not `written` comes with its diffs."""
    said = ", ".join(f"{package} {version}" for package, version in targets.items())
    files = [file for file in report.fixed if file.done or file.left or file.problem]
    yield f"## Upgrade to {said}\n"
    yield from _summary_lines(report, targets, files, written)
    yield from _pin_lines(report, targets)
    groups = _groups_with_obstacles(report, files, written)
    for file in sorted(files, key=lambda one: one.path.as_posix()):
        yield f"### {_markdown_code(file.path.as_posix())}\n"
        if file.problem:
            yield f"- [ ] {_markdown_prose(file.problem)}\n"
        else:
            yield from _file_lines(file, written, groups)
    for group in groups:
        yield f"### {_kept_title(group)}\n"
        yield "\n".join([*(f"- {_markdown_prose(one)}" for one in group.fix_obstacles), ""])
        asked = dict.fromkeys(_joint_move_advice(one, group) for file in files for one in file.left)
        yield "\n".join(
            [
                "After you remove these obstacles, run `shardlint upgrade` again; or write by hand:",
                "",
                *filter(None, asked),
                "",
            ]
        )
    yield from _unchecked_files_lines(report, {file.path for file in files})


def _summary_lines(
    report: FixReport, targets: Mapping[str, str], files: Iterable[FixedFile], written: bool
) -> Iterator[str]:
    done = [finding for file in files if not file.problem for finding in file.done]
    left = sum(len(file.left) for file in files)
    changed = sum(file.is_changed and not file.problem for file in files)
    unsafe = sum(finding.fix is not None and finding.fix.safety == "unsafe" for finding in done)
    command = " ".join(f"--to {package}={version}" for package, version in targets.items())
    verb = "Fixed" if written else "Would fix"
    text = f"`shardlint upgrade {command}` (shardlint {__version__}), {format_count(report.files, 'file')} read. "
    if not report.files and not report.skipped:
        text += f"Nothing to upgrade: {report.reason_for_no_files}."
    elif not done and not left:
        text += "Nothing to do."
    else:
        where = f"{format_count(len(done), 'place')} in {format_count(changed, 'file')}"
        text += f"{verb} {where}; {left} left to do by hand."
    if unsafe:
        text += f" {unsafe} marked **review** may change numbers, memory or communication."
    yield f"{text}\n"


def _pin_lines(report: FixReport, targets: Mapping[str, str]) -> Iterator[str]:
    """Yield the requirements of the projects that must be changed by hand."""
    lines = []
    for root in dict.fromkeys(report.root(file.path) for file in report.fixed):
        pins = read_pins(Path(root), list(targets))
        where = "" if shown_folder(root) == "." else f" of {_markdown_code(shown_folder(root))}"
        for package, version in targets.items():
            release, file = pins.exact.get(package, (None, ""))
            spec, other = pins.ranges.get(package, ("", ""))
            if release is not None and not is_release_allowed(f"=={version}.*", release):
                lines.append(f"- [ ] {_markdown_code(file)}{where} pins {package} {format_release(release)}")
            elif release is None and spec and not is_release_allowed(spec, parse_release(version)):
                lines.append(
                    f"- [ ] {_markdown_code(other)}{where} requires {package} {_markdown_code(spec)}"
                )
    if lines:
        yield "\n".join(["### Releases", "", *lines, ""])


def _file_lines(file: FixedFile, written: bool, groups: Sequence[by_project.Group]) -> Iterator[str]:
    done: dict[str, list[str]] = {}
    pairs = zip(file.done, file.done_at, strict=True)
    for finding, (before, after) in sorted(pairs, key=lambda pair: pair[1][written]):
        place = _place_text(file.after, after) if written else _place_text(file.before, before)
        done.setdefault(_describe_done(finding), []).append(place)
    left: dict[str, list[str]] = {}
    source = file.after if written else file.before
    for finding in file.left if written else file.left_before:
        left.setdefault(_describe_left(finding, groups), []).append(_place_text(source, finding.start))
    lines = [f"- {_format_places(places)}: {what}" for what, places in done.items()]
    lines += [f"- [ ] {_format_places(places)}: {what}" for what, places in left.items()]
    yield "\n".join([*lines, ""])
    if not written and file.is_changed:
        shown = [make_printable(line.expandtabs(4)) for line in unified_diff(file)]
        fence = "`" * (3 + max((len(run) for line in shown for run in re.findall("`{3,}", line)), default=0))
        yield "\n".join([f"{fence}diff", *shown, fence, ""])


def _describe_done(finding: Finding) -> str:
    fix = finding.fix
    text = f"{finding.rule.code} {finding.rule.name}: {_markdown_prose(fix.message) if fix is not None else 'fixed'}"
    if fix is not None and fix.safety == "unsafe":
        text += f" **review**{f' ({_markdown_prose(fix.why)})' if fix.why else ''}"
    return text


def _describe_left(finding: Finding, groups: Sequence[by_project.Group]) -> str:
    advice = finding.advice
    _, together, reasons = advice.partition(f"{TOGETHER}: ")
    below = next((group for group in groups if together and _is_reason_reported(reasons, group)), None)
    if below is not None:  # where all of it is told together, what to write is told once
        advice = f'see "{_kept_title(below)}"'
    help = f" {_markdown_prose(as_sentence(advice))}" if advice else ""
    rule, message = finding.rule, _markdown_prose(finding.message)
    return f"**{rule.code} {rule.name}** ({finding.harm.value}) {message}{help}"


def _joint_move_advice(finding: Finding, group: by_project.Group) -> str:
    """Return the advice of a finding that moves with others, without its place; empty for any other finding."""
    advice = finding.advice
    head, together, reasons = advice.partition(f"{TOGETHER}: ")
    if not together or not _is_reason_reported(reasons, group):
        return ""
    first = _ENTERED.sub("jax.set_mesh(...)", head.partition(f"; {NO_FIX}")[0])
    return f"- {finding.rule.code}: {_markdown_prose(as_sentence(first))}"


def _groups_with_obstacles(
    report: FixReport, files: Iterable[FixedFile], written: bool
) -> list[by_project.Group]:
    """Return the groups of findings with obstacles to moves that whole projects make together."""
    reports = [file.remaining_report(written) for file in files]
    return [group for group in by_project.grouped_findings(reports, report.root).values() if group.fix_obstacles]


def _kept_title(group: by_project.Group) -> str:
    first = group.found[0].rule
    return f"Why {first.code} {first.name} is not rewritten in {_markdown_code(shown_folder(group.root))}"


def _is_reason_reported(reasons: str, group: by_project.Group) -> bool:
    """Return whether the first reason that a finding names is among the reasons reported for a project."""
    first = _PLACE.sub("", reasons)
    return any(first.startswith(_PLACE.sub("", one)) for one in group.fix_obstacles)


def _unchecked_files_lines(report: FixReport, paths: Collection[Path]) -> Iterator[str]:
    """Yield the section about files that were not checked, except those with findings that say so."""
    lines = [
        f"- {_markdown_code(path.as_posix())}: {_markdown_prose(why)}"
        for path, why in report.skipped
        if path not in paths
    ]
    lines += [
        f"- {_markdown_code(path.as_posix())}: {_markdown_prose(fault.reason)}"
        for path, fault in report.faults
    ]
    lines += [f"- {_markdown_code(path.as_posix())}: no such file or directory" for path in report.missing]
    if lines:
        yield "\n".join(["### Not checked", "", *lines, ""])


def _place_text(source: Source, offset: int) -> str:
    cell, line, _ = source.locate_offset(offset)
    return str(line) if cell is None else f"cell {cell} line {line}"


def _format_places(places: list[str]) -> str:
    each = list(dict.fromkeys(places))
    if each[0].startswith("cell "):
        return ", ".join(each)
    return f"line {each[0]}" if len(each) == 1 else f"lines {', '.join(each)}"


def _markdown_code(text: str) -> str:
    """Text in backticks, also where it holds some."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if fence != "`" else ""
    return f"{fence}{pad}{make_printable(text)}{pad}{fence}"


def _markdown_prose(text: str) -> str:
    """A message: what stands in backticks as it is, of the rest no mark of Markdown. On one line."""
    parts = _CODE.split(" ".join(make_printable(line) for line in text.splitlines()))
    return "".join(part if number % 2 else _MARKS.sub(r"\\\1", part) for number, part in enumerate(parts))
