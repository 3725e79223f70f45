"""Files to findings: screen, facts, program, sites, rules, suppressions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shardlint.dispatch import Wakes, sites
from shardlint.facts import CutWrong, FileFacts, NotParsed
from shardlint.own import FileNotParsed, SuppressionWithoutReason, UnusedSuppression
from shardlint.program import Program, project_root
from shardlint.registry import matching, select
from shardlint.rule import Certainty, Edit, Finding, Fix, Rule, Safety
from shardlint.settings import Settings, find_settings
from shardlint.site import Site
from shardlint.sources.find import Found, find, matches
from shardlint.sources.suppress import Suppression, suppressions
from shardlint.sources.text import Source, Unreadable, decode, read_bytes
from shardlint.targets import Targets, find_targets

_OWN = ("SL001", "SL002", "SL003")
_NEWER_SIZE, _NEWER_LINE, _NEWER_DEPTH, _NEWER_STACK = 300_000, 2_000, 200, 256 * 2**20


@dataclass(frozen=True)
class Options:
    """What the command line asks for; it wins over the settings."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    harm: tuple[str, ...] = ()
    pedantic: bool = False
    targets: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


@dataclass
class FileReport:
    """The findings of one file, in text order, with the source they point into."""

    path: Path
    source: Source
    findings: list[Finding]


@dataclass
class Report:
    """The result of a run. `skipped` are files that were not checked, each with its reason."""

    files: int = 0
    reports: list[FileReport] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    missing: list[Path] = field(default_factory=list)
    targets: Targets | None = None
    failed: bool = False
    """Whether shardlint itself failed on a file."""

    @property
    def findings(self) -> int:
        """How many findings there are."""
        return sum(len(report.findings) for report in self.reports)


@dataclass
class _Scope:
    """What files under one settings file and project share."""

    settings: Settings
    rules: tuple[Rule, ...]
    codes: frozenset[str]
    wakes: Wakes
    proving: Wakes
    """Without the rules that only find what is likely, where nobody asks for that."""
    targets: Targets
    program: Program
    pedantic: bool
    ignores: tuple[tuple[str, frozenset[str]], ...]
    """Patterns of files, and the codes left out there."""

    def ignored(self, path: Path) -> frozenset[str]:
        """The codes that the settings leave out for a file."""
        if not self.ignores or self.settings.path is None:
            return frozenset()
        base = self.settings.path.resolve().parent
        here = [codes for pattern, codes in self.ignores if matches([pattern], path.resolve(), base)]
        return frozenset().union(*here)


class Checker:
    """Checks files, one project at a time. Holds the programs, so that files of one project are linked once."""

    def __init__(self, options: Options, overlay: dict[Path, Source] | None = None) -> None:
        self.options = options
        self._overlay = overlay or {}
        self.failed = False
        """Whether shardlint itself failed on some file; the others were checked."""
        self._scopes: dict[tuple[Path | None, Path], _Scope] = {}
        self._settings: dict[Path, Settings] = {}
        self._roots: dict[Path, Path] = {}

    def settings(self, folder: Path) -> Settings:
        """The settings that govern a folder. Raises `BadSettings`."""
        if folder not in self._settings:
            self._settings[folder] = find_settings(folder)
        return self._settings[folder]

    def targets(self, path: Path) -> Targets:
        """The targets that hold for a file."""
        return self._scope(path).targets

    def _scope(self, path: Path) -> _Scope:
        folder = path if path.is_dir() else path.parent
        settings = self.settings(folder)
        if folder not in self._roots:
            self._roots[folder] = project_root(path)
        root = self._roots[folder]
        key = (settings.path, root)
        if key not in self._scopes:
            self._scopes[key] = self._make(settings, root)
        return self._scopes[key]

    def _make(self, settings: Settings, root: Path) -> _Scope:
        options = self.options
        chosen = options.select or settings.select
        rules = select(chosen, (*settings.ignore, *options.ignore))
        if options.harm:
            wanted = set(matching(options.harm))
            rules = tuple(rule for rule in rules if rule.code in wanted)
        targets = find_targets(root, options.targets, settings.targets, settings.name)
        rules = tuple(
            rule for rule in rules if all(targets.allows(p, spec) for p, spec in rule.holds.items())
        )
        pedantic = options.pedantic or settings.pedantic
        return _Scope(
            settings,
            rules,
            frozenset(rule.code for rule in rules),
            Wakes.of(rules),
            Wakes.of(rule for rule in rules if pedantic or rule.certainty is Certainty.PROVEN),
            targets,
            Program(root, self._overlay, settings.jit_decorators),
            pedantic,
            tuple(
                (pattern, frozenset(matching(codes))) for pattern, codes in settings.per_file_ignores.items()
            ),
        )

    def check_file(self, path: Path, data: bytes | None = None) -> tuple[FileReport | None, str | None]:
        """Check one file: its report, or None with nothing to report; and the reason when it was not checked."""
        absolute = path.resolve()
        scope = self._scope(absolute)
        try:
            data = read_bytes(path) if data is None else data
        except Unreadable as error:
            return self._not_read(scope, path, str(error))
        # A likely finding that is not asked for still makes its suppression a used one.
        commented = b"shardlint:" in data
        wakes = scope.wakes if commented else scope.proving
        hits = wakes.hits(data)
        if not hits and not commented:
            return None, None
        try:
            source = self._overlay.get(absolute) or decode(path, data)
        except Unreadable as error:
            return self._not_read(scope, path, str(error))
        comments = suppressions(source.text, source.line_starts)
        found: list[Finding] = []
        if hits:
            try:
                found = self._findings(scope, absolute, source, wakes, hits)
            except NotParsed as error:
                return self._not_parsed(scope, path, source, error)
            except RecursionError:
                return self._not_parsed(
                    scope, path, source, NotParsed("the file is nested too deeply to check")
                )
            except Exception as error:
                self.failed = True
                return None, f"shardlint itself failed here, please report it: {error!r}"
        kept = self._suppress(scope, source, found, comments, path)
        return (FileReport(path, source, kept) if kept else None), None

    def _findings(self, scope: _Scope, absolute: Path, source: Source, wakes: Wakes, hits: list[str]) -> list[Finding]:
        scope.program.trim()
        while True:
            try:
                return self._at_sites(scope, scope.program.project.checked(source, absolute), wakes, hits)
            except CutWrong as error:
                scope.program.read_whole(error.path)

    def _at_sites(self, scope: _Scope, facts: FileFacts, wakes: Wakes, hits: list[str]) -> list[Finding]:
        found: dict[tuple[str, int, int], Finding] = {}
        for site in sites(scope.program, facts, wakes, scope.targets, hits):
            for finding in _checked(site):
                found.setdefault((finding.rule.code, finding.start, finding.end), finding)
        return sorted(found.values(), key=lambda finding: (finding.start, finding.end, finding.rule.code))

    def _suppress(
        self, scope: _Scope, source: Source, found: list[Finding], comments: list[Suppression], path: Path
    ) -> list[Finding]:
        kept = []
        for finding in found:
            first, last = (
                source.position(finding.start)[0],
                source.position(max(finding.start, finding.end - 1))[0],
            )
            covering = [comment for comment in comments if comment.covers(finding.rule.code, first, last)]
            for comment in covering:
                comment.used.add(finding.rule.code)
            if not covering and (finding.certainty is Certainty.PROVEN or scope.pedantic):
                kept.append(finding)
        if "SL002" in scope.codes and not self.options.select and not self.options.harm:
            kept += [finding for comment in comments for finding in _unused(source, comment, scope)]
        if "SL003" in scope.codes:
            kept += [
                Finding(SuppressionWithoutReason, c.offset, c.end, "says no reason", "Nobody can tell later why.",
                        help="write the reason after the bracket", harm=SuppressionWithoutReason.harm)
                for c in comments if not c.reason
            ]  # fmt: skip
        ignored = scope.ignored(path)
        kept = [finding for finding in kept if finding.rule.code not in ignored]
        return sorted(kept, key=lambda finding: (finding.start, finding.end, finding.rule.code))

    def _not_read(self, scope: _Scope, path: Path, reason: str) -> tuple[FileReport | None, str]:
        source = Source(path, "")
        return self._broken(scope, path, source, 0, reason), reason

    def _not_parsed(
        self, scope: _Scope, path: Path, source: Source, error: NotParsed
    ) -> tuple[FileReport | None, str]:
        line = min(error.line, len(source.line_starts))
        offset = min(source.line_starts[line - 1] + error.column - 1, len(source.text))
        reason = f"{error}{_newer(source)}"
        return self._broken(scope, path, source, offset, reason), reason

    def _broken(
        self, scope: _Scope, path: Path, source: Source, offset: int, reason: str
    ) -> FileReport | None:
        if "SL001" not in scope.codes or "SL001" in scope.ignored(path):
            return None
        finding = Finding(
            FileNotParsed, offset, offset, "", f"{reason[0].upper()}{reason[1:]}. Nothing in the file was checked.",
            harm=FileNotParsed.harm,
        )  # fmt: skip
        return FileReport(path, source, [finding])


def _checked(site: Site) -> Iterator[Finding]:
    """A rule's findings at a site; what goes wrong in it is told with the rule and the line."""
    try:
        yield from site.rule.check(site)
    except (RecursionError, CutWrong):
        raise
    except Exception as error:
        line = getattr(site.syntax, "lineno", 1)
        raise RuntimeError(f"{site.rule.code} at line {line}: {type(error).__name__}: {error}") from error


def _newer(source: Source) -> str:
    """Whether a newer Python could parse it: libcst knows later grammars than the running one.

    libcst overruns its stack, and ends the process, on nesting that Python refuses politely: it is asked only about
    what people write, on a stack that holds more than that.
    """
    text = source.text
    if (
        len(text) > _NEWER_SIZE
        or max(map(len, text.splitlines())) > _NEWER_LINE
        or _bracket_depth(text) > _NEWER_DEPTH
    ):
        return ""
    import threading

    import libcst

    parsed: list[bool] = []

    def parse() -> None:
        try:
            libcst.parse_module(text)
        except Exception:
            return
        parsed.append(True)

    before = threading.stack_size(_NEWER_STACK)
    try:
        thread = threading.Thread(target=parse)
        thread.start()
        thread.join()
    except RuntimeError:  # no memory for the stack: no hint
        return ""
    finally:
        threading.stack_size(before)
    return "; a newer Python can parse it: run shardlint with the Python the project uses" if parsed else ""


def _bracket_depth(text: str) -> int:
    """How deep brackets nest, those in strings counted too."""
    depth = deepest = 0
    for bracket in re.findall(r"[(\[{)\]}]", text):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _unused(source: Source, comment: Suppression, scope: _Scope) -> list[Finding]:
    known = [code for code in comment.codes if code in scope.codes or code not in _all_codes()]
    idle = [code for code in known if code not in comment.used]
    if (comment.codes and not idle) or (not comment.codes and comment.used):
        return []
    whole = not comment.codes or len(idle) == len(comment.codes)
    if whole:
        edit = _removed(source, comment)
        what = "it suppresses nothing"
    else:
        text = source.text[comment.offset : comment.end]
        left = ", ".join(code for code in comment.codes if code not in idle)
        inside = text[: text.index("[") + 1] + left + text[text.index("]") :]
        edit = Edit(comment.offset, comment.end, inside)
        what = f"{', '.join(idle)} suppresses nothing here"
    fix = Fix(Safety.SAFE, "remove the comment" if whole else "remove the code", (edit,))
    return [
        Finding(UnusedSuppression, comment.offset, comment.end, what, "It would hide the next mistake on this line.",
                harm=UnusedSuppression.harm, fix=fix)
    ]  # fmt: skip


def _all_codes() -> frozenset[str]:
    from shardlint.registry import entries

    return frozenset(entries())


def _removed(source: Source, comment: Suppression) -> Edit:
    """Take a comment away: with its line when it stands alone, with the blanks before it when it ends one."""
    line = source.position(comment.offset)[0]
    begin = source.line_starts[line - 1]
    end = source.line_starts[line] if line < len(source.line_starts) else len(source.text)
    before, after = source.text[begin : comment.offset], source.text[comment.end : end]
    if after.strip():  # another comment follows
        return Edit(comment.offset, comment.end + len(after) - len(after.lstrip()), "")
    if not before.strip():
        return Edit(begin, end, "")
    return Edit(begin + len(before.rstrip(" \t")), comment.end, "")


def check(paths: Sequence[Path], options: Options, stdin: tuple[Path, bytes] | None = None) -> Report:
    """Check files and folders, or text given on standard input under a name.

    Raises `BadSettings` and `UnknownRule`: the run cannot be done as asked. Everything else that is wrong with a file
    is reported and the other files are checked.
    """
    report = Report()
    if stdin is not None:
        path, data = stdin
        overlay: dict[Path, Source] = {}
        with contextlib.suppress(Unreadable):  # check_file says why
            overlay[path.resolve()] = decode(path, data)
        checker = Checker(options, overlay)
        report.targets = checker.targets(path.resolve())
        _add(report, checker, path, data)
        return report
    checker = Checker(options)
    first = paths[0].resolve() if paths else Path.cwd()
    report.targets = checker.targets(first if first.exists() else Path.cwd())
    found = chosen(paths, checker)
    report.missing += found.missing
    report.skipped += found.skipped
    for path, one, reason, failed in results(found.files, checker):
        report.files += 1
        report.failed = report.failed or failed
        if one is not None:
            report.reports.append(one)
        if reason is not None:
            report.skipped.append((path, reason))
    return report


Outcome = tuple[Path, FileReport | None, str | None, bool]
"""A file, what was found in it, why it was not checked, and whether shardlint itself failed on it."""


def results(files: Sequence[Path], checker: Checker) -> Iterator[Outcome]:
    """What comes of each file, in order; by several processes where that is faster."""
    from shardlint.workers import side_by_side, worth_it

    if worth_it(files):
        yield from side_by_side(files, checker.options)
    else:
        for file in files:
            yield outcome(checker, file)


def outcome(checker: Checker, path: Path) -> Outcome:
    """Check one file."""
    before, checker.failed = checker.failed, False
    found, reason = checker.check_file(path)
    failed, checker.failed = checker.failed, checker.failed or before
    return path, found, reason, failed


def chosen(paths: Sequence[Path], checker: Checker) -> Found:
    """The files that paths name, each once, without those that the settings of each path exclude."""
    every = Found()
    seen: set[Path] = set()
    for path in paths:
        settings = checker.settings(path if path.is_dir() else path.parent)
        base = settings.path.parent if settings.path is not None else Path.cwd()
        found = find([path], (*settings.exclude, *checker.options.exclude), base)
        every.missing += found.missing
        every.skipped += found.skipped
        for file in found.files:
            absolute = file.absolute()
            if absolute not in seen:
                seen.add(absolute)
                every.files.append(file)
    return every


def _add(report: Report, checker: Checker, path: Path, data: bytes | None) -> None:
    report.files += 1
    found, reason = checker.check_file(path, data)
    if found is not None:
        report.reports.append(found)
    if reason is not None:
        report.skipped.append((path, reason))
    report.failed = report.failed or checker.failed
