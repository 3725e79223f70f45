"""Findings to fixed files: projects one after the other, each in memory first, then written file by file."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import compress
from pathlib import Path

from shardlint.config.folders import Places, real_path
from shardlint.engine.adoption.baseline import match_entries
from shardlint.engine.adoption.known_findings import ProjectBaseline, baselines_of
from shardlint.engine.catalogue import keep_cards, recall_cards
from shardlint.engine.file_choice import choose_files
from shardlint.engine.one_file import Checker
from shardlint.engine.results import FileReport, Options, Outcome, Run
from shardlint.output.printable import make_printable
from shardlint.rewrite.project_fixes import AppliedFix, Attempt, FileInProgress, is_fix_wanted
from shardlint.rewrite.recheck import carry_out
from shardlint.rules_api.rule import Finding
from shardlint.source.decoding import decode_file
from shardlint.source.files import remove_left_over, replace_file
from shardlint.source.find import FileSelection
from shardlint.source.lazy import dataclass
from shardlint.source.magics import restore_notebook_code
from shardlint.source.regular_files import TooLarge, read_regular
from shardlint.source.text import Source, Unreadable

__all__ = [
    "FixReport",
    "FixedFile",
    "binary_patch",
    "fix_files",
    "fix_text",
    "is_fix_wanted",
    "unified_diff",
    "write_atomically",
]

_SPACE, _DELETE = 0x20, 0x7F
_ESCAPES = {ord(b'"'): b'\\"', ord(b"\\"): b"\\\\", 0x09: b"\\t", 0x0A: b"\\n", 0x0D: b"\\r"}

Gate = Callable[[Attempt], Iterable[tuple[AppliedFix, str]]]
"""Looks at what an attempt made, and says what is not to be made, each with the reason. Asked until it has none."""


@dataclass
class FixedFile:
    """One file's outcome: its source before and after, the findings that were fixed, and those left.

    What is left points into `after`; of a fix that was taken back it says why.
    """

    path: Path
    before: Source
    after: Source
    done: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    problem: str = ""
    left_before: list[Finding] = field(default_factory=list)
    """What is left, pointing into `before`."""
    done_at: list[tuple[int, int]] = field(default_factory=list)
    """Where each that was fixed was in `before`, and is in `after`."""

    @property
    def is_changed(self) -> bool:
        """True if there is anything to write."""
        return self.after.text != self.before.text

    def remaining_report(self, written: bool) -> FileReport:
        """Return the remaining findings as a report of a check: in the file as it is now, or was."""
        if written:
            return FileReport(self.path, self.after, self.left)
        return FileReport(self.path, self.before, self.left_before)


@dataclass
class FixReport(Run):
    """The result of fixing."""

    fixed: list[FixedFile] = field(default_factory=list)
    known: int = 0
    """How many of what is left the baselines of the projects know: they are in no file's `left`."""


def fix_files(
    paths: Sequence[Path],
    options: Options,
    unsafe: bool,
    write: bool,
    gates: Sequence[Gate] = (),
    known: bool = False,
) -> FixReport:
    """Fix the files. With `write` False nothing is written. What does not pass the `gates` is not made.

    `known` leaves out of what is left what the baselines of the projects know.

    Raises `BadBaseline`, `BadSettings` and `UnknownRule`, before anything is written. A file that cannot be read, fixed
    or written is reported; the others go on.
    """
    report = FixReport()
    places = Places(config=options.config, paths=paths)
    recall_cards(places.result_store)
    found = choose_files(paths, options, places)
    report.passed_by(found)
    report.root = Checker(options, places=places).root_for
    baselines = baselines_of(found, options, places) if known else {}
    named = {met.shown_path for met in found.met if met.stamp is None}
    files = _each_once(found)
    if write:
        remove_left_over(files)
    gates = [_cannot_be_written, *gates] if write else gates
    beside: dict[Path, Source] = {}
    for root, inside in _group_by_project(files, Checker(options, places=places)).items():
        attempt = Attempt([], options, unsafe, root, places, beside)
        _fix_project(report, inside, attempt, write, gates)
        changed = (one for one in report.fixed if one.is_changed and not one.problem)
        beside = {one.path.resolve(): one.after for one in changed}
    report.incomplete = report.incomplete or any(path in named for path, _ in report.skipped)
    order = {path: place for place, path in enumerate(files)}
    report.fixed.sort(key=lambda outcome: order[outcome.path])
    keep_cards(places.result_store)
    _leave_known(report, baselines, places)
    return report


def _leave_known(report: FixReport, baselines: Mapping[str, ProjectBaseline], places: Places) -> None:
    """Take out of what is left what the baselines know: `check` does not report it either. They stay as they are."""
    left = {outcome.path: outcome for outcome in report.fixed if outcome.left and not outcome.problem}
    for path, outcome in left.items():
        project = baselines.get(places.project_root(str(Path(real_path(path)).parent)))
        if project is not None:
            project.reports.append(outcome.remaining_report(written=True))
    for project in baselines.values():
        matched = match_entries(project.entries or [], project.reports, project.base, lambda _: False)
        report.known += matched.known
        new = {id(finding) for _, findings in matched.new for finding in findings}
        for one in project.reports:
            outcome = left[one.path]
            kept = [id(finding) in new for finding in outcome.left]
            outcome.left_before = list(compress(outcome.left_before, kept))
            outcome.left = list(compress(outcome.left, kept))


def fix_text(path: Path, data: bytes, options: Options, unsafe: bool) -> FixReport:
    """Fix a text that stands for a file, which need not be there; nothing is written.

    What has to change together with other files is refused. Raises `BadSettings` and `UnknownRule`.
    """
    report = FixReport()
    places = Places(config=options.config)
    recall_cards(places.result_store)
    checker = Checker(options, places=places)
    report.root = checker.root_for
    beside: dict[Path, Source] = {}
    with contextlib.suppress(Unreadable):  # the check says why
        beside[path.resolve()] = decode_file(path, data)
    attempt = Attempt([], options, unsafe, checker.root_for(path), places, beside)
    attempt.outcomes = [Checker(options, beside, places).check_file(path, data)]
    _fill_report(report, attempt, write=False, gates=())
    report.incomplete = bool(report.skipped)
    return report


def _each_once(file_selection: FileSelection) -> list[Path]:
    """The files to fix: of a file that links lead to too, the path that is none."""
    files: dict[Path, Path] = {}
    for met in file_selection.met:
        real = Path(met.real)
        if real not in files or files[real].is_symlink():
            files[real] = met.shown_path
    return list(files.values())


def _group_by_project(files: Sequence[Path], checker: Checker) -> dict[str, list[Path]]:
    """The files by the project they are in, a project behind those inside it, whose files it may read."""
    projects: dict[str, list[Path]] = {}
    for file in files:
        projects.setdefault(checker.root_for(file), []).append(file)
    return {root: projects[root] for root in sorted(projects, key=lambda root: -len(Path(root).parts))}


def _fix_project(
    report: FixReport, files: Sequence[Path], attempt: Attempt, write: bool, gates: Sequence[Gate]
) -> None:
    checker = attempt.overlay_checker()
    attempt.outcomes = [checker.check_file(file) for file in files]
    checker.let_go()
    _fill_report(report, attempt, write, gates)


def _fill_report(report: FixReport, attempt: Attempt, write: bool, gates: Sequence[Gate]) -> None:
    after = _let_through(attempt, gates)
    for outcome in attempt.outcomes:
        report.files += 1
        report.failed = report.failed or outcome.failed
        report.faults += [(outcome.path, fault) for fault in outcome.faults]
        work = attempt.works.get(outcome.path)
        reason = work.reason if work is not None else outcome.reason
        if reason:
            report.skipped.append((outcome.path, reason))
        if work is not None:
            report.fixed.append(_make_outcome(attempt, work, after.get(str(outcome.path)), write))


def _let_through(attempt: Attempt, gates: Sequence[Gate]) -> dict[str, Outcome]:
    """Carry an attempt out until no gate refuses anything of it; what the check of the result says."""
    after = carry_out(attempt)
    while refused := next((found for gate in gates if (found := list(gate(attempt)))), None):
        for made, why in refused:
            attempt.refused.refuse_fix(made, why)
        after = carry_out(attempt)
    return after


def _cannot_be_written(attempt: Attempt) -> Iterator[tuple[AppliedFix, str]]:
    """Yield the joint fixes of which one file is read-only, each with the reason."""
    for work in attempt.works.values():
        joined = [made for made in work.made if made.files_of_change]
        if joined and not os.access(work.path, os.W_OK):
            why = f"{work.path.name}, which must change with it, is read-only"
            yield from ((made, why) for made in joined)


def _make_outcome(attempt: Attempt, file_work: FileInProgress, again: Outcome | None, write: bool) -> FixedFile:
    findings = file_work.first if again is None else again.report.findings if again.report is not None else []
    left = list(attempt.remaining_findings(file_work, findings))
    before = [
        replace(
            one,
            start=file_work.original_start(one),
            end=max(file_work.original_start(one), file_work.original_end(one)),
        )
        for one in left
    ]
    outcome = FixedFile(
        file_work.path, file_work.before, file_work.after, [made.finding for made in file_work.made], left, "", before
    )
    outcome.done_at = [(made.origin, file_work.current_start(made)) for made in file_work.made]
    if write and outcome.is_changed:
        _write_outcome(outcome)
    return outcome


def _write_outcome(outcome: FixedFile) -> None:
    try:
        write_atomically(outcome.path, outcome.after.encode_file(), expected=outcome.before.encode_file())
    except (OSError, Unreadable) as error:
        outcome.problem = f"not written: {error}"


def unified_diff(outcome: FixedFile) -> Iterator[str]:
    """A unified diff for people, its lines without newlines."""
    before, after = _readable_lines(outcome.before), _readable_lines(outcome.after)
    yield from difflib.unified_diff(before, after, *_display_names(outcome), lineterm="")


def binary_patch(outcome: FixedFile) -> Iterator[bytes]:
    """A unified diff for `patch` and `git apply`: of the file's own bytes, its lines with their ends."""
    before, after = (io.BytesIO(source.encode_file()).readlines() for source in (outcome.before, outcome.after))
    old, new = (_quote_name(name) for name in _prefixed_names(outcome))
    for line in difflib.diff_bytes(difflib.unified_diff, before, after, old, new):
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


def _quote_name(name: str) -> bytes:
    """A file's name as a patch has it: as `git diff` quotes those with control characters, which would end the line."""
    data = os.fsencode(name)
    if not any(byte < _SPACE or byte in b'"\\\x7f' for byte in data):
        return data + b"\t" if b" " in data else data  # where `patch` would end the name
    inside = b"".join(
        _ESCAPES.get(byte) or (bytes([byte]) if _SPACE <= byte < _DELETE else b"\\%03o" % byte) for byte in data
    )
    return b'"%s"' % inside


def _display_names(outcome: FixedFile) -> tuple[str, str]:
    """As people read them."""
    old, new = map(make_printable, _prefixed_names(outcome))
    return old, new


def _prefixed_names(outcome: FixedFile) -> tuple[str, str]:
    path = outcome.path
    if path.is_absolute():  # which `git apply` refuses
        path = path.relative_to(Path.cwd() if path.is_relative_to(Path.cwd()) else path.anchor)
    name = path.as_posix()
    return f"a/{name}", f"b/{name}"


def _readable_lines(source: Source) -> list[str]:
    """As people read them: of a notebook the code, a line between cells."""
    lines = [source.line_text(number + 1) for number in range(len(source.line_starts))]
    if source.in_cells:
        lines = list(map(restore_notebook_code, lines))
    return lines[:-1] if lines and not lines[-1] else lines


def write_atomically(path: Path, data: bytes, expected: bytes) -> None:
    """Write a file as `replace_file` does, with its mode and owner kept.

    Raises `OSError`, also when the file is no longer what was read (`expected`): someone else's change is not lost.
    """
    real = Path(os.path.realpath(path))
    try:
        same = read_regular(real, len(expected)) == expected
    except TooLarge:
        same = False
    if not same:
        raise OSError("the file changed in the meantime; run fix again")
    if not os.access(real, os.W_OK):
        raise PermissionError("permission denied: the file is read-only")
    replace_file(real, data)
