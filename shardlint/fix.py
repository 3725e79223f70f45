"""Findings to edits to files: overlap, order, imports, fixpoint, atomic writes."""

from __future__ import annotations

import difflib
import io
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shardlint.check import chosen
from shardlint.checker import Checker
from shardlint.facts import FileFacts, NotParsed, read_facts
from shardlint.files import replace_file
from shardlint.imports import dropped
from shardlint.outcome import Options, Outcome, Run
from shardlint.places import Places
from shardlint.plain import plain
from shardlint.program.project import Project
from shardlint.rule import Edit, Finding, Fix, Safety
from shardlint.sources.find import Found
from shardlint.sources.text import Source, Unreadable, decode

# A fix may uncover another finding; more rounds than this means two rules undo each other.
_ROUNDS = 10


@dataclass
class FixedFile:
    """One file's outcome: its source before and after, the findings mended, and those left."""

    path: Path
    before: Source
    after: Source
    mended: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    problem: str = ""

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.after.text != self.before.text


@dataclass
class FixReport(Run):
    """The result of mending."""

    fixed: list[FixedFile] = field(default_factory=list)


def fix(paths: Sequence[Path], options: Options, unsafe: bool, write: bool) -> FixReport:
    """Mend the files. With `write` False nothing is written.

    Raises `BadSettings` and `UnknownRule`. A file that cannot be read, mended or written is reported; the others go on.
    """
    report = FixReport()
    places = Places()
    projects: dict[str, Project] = {}
    checker = Checker(options, places=places)
    found = chosen(paths, options, places)
    report.missing += found.missing
    report.skipped += found.skipped
    for file in _each_once(found):
        report.files += 1
        first = checker.check_file(file)
        report.failed = report.failed or first.failed
        outcome, reason = fix_file(first, options, unsafe, _project(projects, checker, file))
        if reason is not None:
            report.skipped.append((file, reason))
        if outcome is None:
            continue
        if write:
            _write(outcome)
        report.fixed.append(outcome)
    if write:
        turns = 1
        while turns < _ROUNDS and _look_again(report, options, unsafe, projects):
            turns += 1
    return report


def _each_once(found: Found) -> list[Path]:
    """The files to mend: of a file that links lead to too, the path that is none."""
    files: dict[str, Path] = {}
    for met in found.met:
        if met.real not in files or files[met.real].is_symlink():
            files[met.real] = met.path
    return list(files.values())


def _project(projects: dict[str, Project], checker: Checker, file: Path) -> Project:
    root = checker.root(file)
    return projects.setdefault(root, Project(Path(root)))


def _write(outcome: FixedFile) -> None:
    if outcome.changed and not outcome.problem:
        try:
            write_atomically(outcome.path, outcome.after.encode(), expected=outcome.before.encode())
        except (OSError, Unreadable) as error:
            outcome.problem = f"not written: {error}"


def _look_again(report: FixReport, options: Options, unsafe: bool, projects: dict[str, Project]) -> bool:
    """Mend what is left, where that was seen while other files were as before; returns whether there was something.

    What a fix does may rest on files that came later, and were mended since.
    """
    if not any(outcome.changed and not outcome.problem for outcome in report.fixed):
        return False
    again, found_more = Checker(options), False
    for outcome in report.fixed:
        if not outcome.left or outcome.problem:
            continue
        first = again.check_file(outcome.path)
        if first.reason is not None:
            continue
        outcome.left = first.report.findings if first.report is not None else []
        more, reason = fix_file(first, options, unsafe, _project(projects, again, outcome.path))
        if more is None or reason is not None or not more.changed or more.problem:
            continue
        _write(more)
        if more.problem:
            outcome.problem = more.problem
            continue
        outcome.after, outcome.left = more.after, more.left
        outcome.mended += more.mended
        found_more = True
    return found_more


def fix_file(
    first: Outcome, options: Options, unsafe: bool, project: Project
) -> tuple[FixedFile | None, str | None]:
    """Mend a checked file in memory: apply what can be applied, check again, until nothing more can be."""
    path, found, reason = first.path, first.report, first.reason
    if found is None:
        return None, reason
    outcome = FixedFile(path, found.source, found.source, left=found.findings)
    if reason is not None:
        return outcome, reason
    findings = found.findings
    for turn in range(_ROUNDS):
        applied, text = apply(outcome.after, findings, unsafe, project)
        if applied and turn == 0:
            if not outcome.before.exact:
                name = outcome.before.encoding
                return outcome, f"written as {name} it would be other bytes throughout; save it as UTF-8"
            try:  # a file in which only comments were looked at need not be Python
                facts = read_facts(outcome.before, path)
            except NotParsed as error:
                return outcome, str(error)
            broken = _not_compiled(facts)
            if broken is not None:
                return outcome, f"Python cannot compile it: {broken}"
        if not applied or text == outcome.after.text:
            break
        after = outcome.after.replaced(text)
        wrong = _wrong(after)
        if wrong is not None and len(applied) > 1:
            # Each may be right alone: two statements are taken away that were the whole of a block.
            applied, text = apply(outcome.after, applied[:1], unsafe, project)
            after = outcome.after.replaced(text)
            wrong = _wrong(after)
        if wrong is not None:
            codes = ", ".join(sorted({finding.rule.code for finding in applied}))
            outcome.problem = f"the fix of {codes} would break the file ({wrong}); nothing was changed"
            outcome.after = outcome.before
            outcome.mended = []
            break
        outcome.after = after
        outcome.mended += applied
        again = Checker(options, {path.resolve(): after})
        report = again.check_file(path, after.encode()).report
        findings = report.findings if report is not None else []
        if not findings:
            break
    outcome.left = findings
    return outcome, None


def _wrong(after: Source) -> str | None:
    """Why a text cannot be written; None where it can."""
    try:
        facts = read_facts(after, after.path)
        read = decode(after.path, after.encode())
    except (NotParsed, Unreadable) as error:
        return str(error)
    if read.text != after.text:  # a coding cookie came or went
        return f"Python would read it as {read.encoding}, and it is written as {after.encoding}"
    return _not_compiled(facts)


def _not_compiled(file: FileFacts) -> str | None:
    """What Python says of a text that parses and still is no program, as with a late `from __future__`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(file.tree, str(file.path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        return None
    return None


def wanted(fix: Fix | None, unsafe: bool) -> bool:
    """Whether a fix may be applied."""
    return fix is not None and (fix.safety is Safety.SAFE or unsafe)


def apply(
    source: Source, findings: Sequence[Finding], unsafe: bool, project: Project
) -> tuple[list[Finding], str]:
    """Apply the fixes that do not overlap, each whole or not at all, then drop imports they left unused."""
    chosen: list[Finding] = []
    edits: dict[tuple[int, int, str], Edit] = {}
    for finding in findings:
        if finding.fix is None or not wanted(finding.fix, unsafe):
            continue
        new = {(edit.start, edit.end, edit.text): edit for edit in finding.fix.edits}
        if any(_overlap(one, two) for one in new.values() for key, two in edits.items() if key not in new):
            continue  # the next round gets it
        edits.update(new)
        chosen.append(finding)
    text = _spliced(source.text, list(edits.values()))
    names = {name for finding in chosen if finding.fix is not None for name in finding.fix.drops}
    if names:
        try:
            facts = read_facts(source.replaced(text), source.path.resolve())
            text = _spliced(text, dropped(facts, names, project))
        except NotParsed:
            pass  # the caller reports it
    return chosen, text


def _overlap(one: Edit, two: Edit) -> bool:
    if one.start == one.end == two.start == two.end:
        return one.text != two.text and not (_is_import(one) and _is_import(two))
    return one.start < two.end and two.start < one.end


def _is_import(edit: Edit) -> bool:
    return edit.text.lstrip("\r\n").startswith(("import ", "from "))


def _spliced(text: str, edits: list[Edit]) -> str:
    parts = []
    end = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end, edit.text)):
        parts += [text[end : edit.start], edit.text]
        end = edit.end
    return "".join([*parts, text[end:]])


def diff(outcome: FixedFile) -> Iterator[str]:
    """A unified diff for people, its lines without newlines."""
    before, after = _lines(outcome.before), _lines(outcome.after)
    yield from difflib.unified_diff(before, after, *_names(outcome), lineterm="")


def patch(outcome: FixedFile) -> Iterator[bytes]:
    """A unified diff for `patch` and `git apply`: of the file's own bytes, its lines with their ends."""
    before, after = (io.BytesIO(source.encode()).readlines() for source in (outcome.before, outcome.after))
    old, new = map(str.encode, _names(outcome))
    for line in difflib.diff_bytes(difflib.unified_diff, before, after, old, new):
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


def _names(outcome: FixedFile) -> tuple[str, str]:
    name = plain(outcome.path.as_posix())  # a line end in it would be a line of the patch
    return f"a/{name}", f"b/{name}"


def _lines(source: Source) -> list[str]:
    lines = [source.line(number + 1) for number in range(len(source.line_starts))]
    return lines[:-1] if lines and not lines[-1] else lines


def write_atomically(path: Path, data: bytes, expected: bytes) -> None:
    """Write a file as `replace_file` does, with its mode and owner kept.

    Raises `OSError`, also when the file is no longer what was read (`expected`): someone else's change is not lost.
    """
    real = Path(os.path.realpath(path))
    status = real.stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
        raise OSError("it is no regular file")
    if real.read_bytes() != expected:
        raise OSError("the file changed while it was being fixed; run fix again")
    if not os.access(real, os.W_OK):
        raise PermissionError("permission denied: the file is read-only")
    replace_file(real, data, stat.S_IMODE(status.st_mode))
