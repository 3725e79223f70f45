"""One file to its findings: screen, facts, program, sites, rules, suppressions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardlint.clock import timed
from shardlint.dispatch import Wakes, sites, wanted, without_modules
from shardlint.facts import CutWrong, FileFacts, NotParsed
from shardlint.outcome import FileReport, Options, Outcome
from shardlint.own import FileNotParsed, SuppressionWithoutReason, UnusedSuppression
from shardlint.places import Places, ScopeKey, folder_of, scope_key
from shardlint.program import Program
from shardlint.program.needs import Need
from shardlint.program.project import Answers
from shardlint.registry import matching, select
from shardlint.rule import Certainty, Edit, Finding, Fix, Rule, Safety
from shardlint.settings import Settings
from shardlint.site import Site
from shardlint.sources.find import matches
from shardlint.sources.suppress import Suppression, suppressions
from shardlint.sources.text import Source, Unreadable, decode, read_bytes
from shardlint.targets import Targets, find_targets

_NEWER_SIZE, _NEWER_LINE, _NEWER_DEPTH, _NEWER_STACK = 300_000, 2_000, 200, 256 * 2**20
_IN_A_STRING = re.compile(r": (?:\((?:unicode|value) error\)|bytes can only contain ASCII)")


@dataclass
class _Scope:
    """What files under one settings file and project share."""

    settings: Settings
    codes: frozenset[str]
    wakes: Wakes
    projects: Mapping[str, Wakes]
    """Modules without which in the project some of the rules have nothing to say, and the wakes of the others."""
    ever: Wakes
    """Of what may wake on other releases too."""
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
        base, real = Path(os.path.realpath(self.settings.path)).parent, Path(os.path.realpath(path))
        here = [codes for pattern, codes in self.ignores if matches([pattern], real, base)]
        return frozenset().union(*here)


class Checker:
    """Checks files, one project at a time. Holds the programs, so that files of one project are linked once."""

    def __init__(
        self,
        options: Options,
        overlay: dict[Path, Source] | None = None,
        places: Places | None = None,
        answers: Mapping[ScopeKey, Answers] | None = None,
    ) -> None:
        self.options = options
        self._overlay = overlay or {}
        self._places = places or Places()
        self._answers: dict[ScopeKey, Answers] = dict(answers or {})
        """What is known of searches through a project, from an earlier run."""
        self._scopes: dict[ScopeKey, _Scope] = {}
        self._wakes: dict[tuple[frozenset[str], bool], Wakes] = {}
        self._real: dict[str, str] = {}

    def targets(self, path: Path) -> Targets:
        """The targets that hold for a file or folder, by absolute path."""
        return self._scope(folder_of(path)).targets

    def root(self, path: Path) -> str:
        """The root of the project that a file is in."""
        return self._places.root(os.path.dirname(self._real_path(path)))

    def _real_path(self, path: Path) -> str:
        if os.path.islink(path):
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        if folder not in self._real:
            self._real[folder] = os.path.realpath(folder)
        return os.path.join(self._real[folder], name)

    def answers(self) -> dict[ScopeKey, Answers]:
        """What searches through the projects of the checked files have found, by other processes too."""
        found: dict[ScopeKey, Answers] = {
            key: scope.program.project.answers for key, scope in self._scopes.items()
        }
        return {
            key: {**self._answers.get(key, {}), **found.get(key, {})} for key in {**self._answers, **found}
        }

    def let_go(self) -> None:
        """Let go of all that was read of the projects so far."""
        for scope in self._scopes.values():
            scope.program.forget()
        self._scopes.clear()
        self._answers.clear()

    def learn(self, answers: Mapping[ScopeKey, Answers]) -> None:
        """Take over what another process found."""
        for key, found in answers.items():
            self._answers[key] = {**self._answers.get(key, {}), **found}

    def _scope(self, folder: str) -> _Scope:
        settings = self._places.settings(folder)
        key = scope_key(settings, self._places.root(folder))
        if key not in self._scopes:
            self._scopes[key] = self._make(settings, key)
        return self._scopes[key]

    def _make(self, settings: Settings, key: ScopeKey) -> _Scope:
        options, root = self.options, Path(key[1])
        chosen = options.select or settings.select
        rules = select(chosen, (*settings.ignore, *options.ignore))
        if options.harm:
            harmful = set(matching(options.harm))
            rules = tuple(rule for rule in rules if rule.code in harmful)
        ever = rules
        targets = find_targets(root, options.targets, settings.targets, settings.name)
        rules = tuple(
            rule for rule in rules if all(targets.allows(p, spec) for p, spec in rule.holds.items())
        )
        pedantic = options.pedantic or settings.pedantic
        asked = [rule for rule in rules if wanted(rule, pedantic)]
        program = Program(root, self._overlay, settings.jit_decorators)
        program.project.answers.update(self._answers.get(key, {}))
        return _Scope(
            settings,
            frozenset(rule.code for rule in rules),
            self._woken(rules),
            {module: self._woken(left, likely=pedantic) for module, left in without_modules(asked).items()},
            self._woken([rule for rule in ever if wanted(rule, pedantic)]),
            self._woken(asked, likely=pedantic),
            targets,
            program,
            pedantic,
            tuple(
                (pattern, frozenset(matching(codes))) for pattern, codes in settings.per_file_ignores.items()
            ),
        )

    def _woken(self, rules: Sequence[Rule], likely: bool = True) -> Wakes:
        key = frozenset(rule.code for rule in rules), likely
        if key not in self._wakes:
            self._wakes[key] = Wakes.of(tuple(rules), likely)
        return self._wakes[key]

    def check_file(self, path: Path, data: bytes | None = None) -> Outcome:
        """Check one file, or other text in its place."""
        real = self._real_path(path)
        scope = self._scope(os.path.dirname(real))
        try:
            with timed("reading"):
                data = read_bytes(path) if data is None else data
        except Unreadable as error:
            return self._not_read(scope, path, str(error))
        # A likely finding that is not asked for still makes its suppression a used one.
        commented = b"shardlint:" in data
        wakes = scope.wakes if commented else scope.proving
        with timed("screening"):
            ever = scope.ever.screen.hits(data)
        if not ever and not commented:
            return Outcome(path, quiet=True)
        hits = wakes.screen.hits(data) if commented else wakes.screen.of(ever, data)
        needs = scope.program.needs
        needs.begin()
        for module, others in scope.projects.items() if hits and not commented else ():
            if not scope.program.project.imported(module):
                wakes, hits = others, others.screen.of(hits, data)
        if not hits and not commented:
            return Outcome(path, needed=needs.named(needs.now))
        absolute = Path(real)
        try:
            source = self._overlay.get(absolute) or decode(path, data)
        except Unreadable as error:
            return self._not_read(scope, path, str(error), ())
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
                return Outcome(
                    path, None, f"shardlint itself failed here, please report it: {error!r}", failed=True
                )
        kept = self._suppress(scope, source, found, comments, path)
        report = FileReport(path, source, kept) if kept else None
        return Outcome(path, report, needed=needs.named(needs.now))

    def _findings(
        self, scope: _Scope, absolute: Path, source: Source, wakes: Wakes, hits: list[str]
    ) -> list[Finding]:
        scope.program.trim()
        while True:
            try:
                return self._at_sites(scope, scope.program.project.checked(source, absolute), wakes, hits)
            except CutWrong as error:
                scope.program.read_whole(error.path)

    def _at_sites(self, scope: _Scope, facts: FileFacts, wakes: Wakes, hits: list[str]) -> list[Finding]:
        found: dict[tuple[str, int, int], Finding] = {}
        with timed("finding what wakes rules"):
            woken = list(sites(scope.program, facts, wakes, scope.targets, hits))
        for site in woken:
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

    def _not_read(
        self, scope: _Scope, path: Path, reason: str, needed: tuple[Need, ...] | None = None
    ) -> Outcome:
        source = Source(path, "")
        return Outcome(path, self._broken(scope, path, source, 0, reason), reason, needed=needed)

    def _not_parsed(self, scope: _Scope, path: Path, source: Source, error: NotParsed) -> Outcome:
        line = min(error.line, len(source.line_starts))
        offset = min(source.line_starts[line - 1] + error.column - 1, len(source.text))
        reason = str(error)
        if not _IN_A_STRING.search(reason):  # libcst does not look into strings
            reason += _newer(source)
        return Outcome(path, self._broken(scope, path, source, offset, reason), reason, needed=())

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
        with timed(f"{site.rule.code} {site.rule.name}"):
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
    unknown = [code for code in comment.codes if code not in _all_codes()]
    idle = [
        code
        for code in comment.codes
        if code not in comment.used and (code in scope.codes or code in unknown)
    ]
    if (comment.codes and not idle) or (not comment.codes and comment.used):
        return []
    whole = not comment.codes or len(idle) == len(comment.codes)
    what = "it suppresses nothing" if whole else f"{', '.join(idle)} suppresses nothing here"
    if comment.misspelt or unknown:  # what is meant is for people to say
        kind = "ignore-file" if comment.whole_file else "ignore"
        wrong = f"No rule has the code {', '.join(unknown)}" if unknown else "It names no code in brackets"
        return [
            Finding(UnusedSuppression, comment.offset, comment.end, what,
                    f"{wrong}; write `# shardlint: {kind}[SL201]`, with the codes that are meant.",
                    harm=UnusedSuppression.harm)
        ]  # fmt: skip
    if whole:
        edit = _removed(source, comment)
    else:
        text = source.text[comment.offset : comment.end]
        left = ", ".join(code for code in comment.codes if code not in idle)
        inside = text[: text.index("[") + 1] + left + text[text.index("]") :]
        edit = Edit(comment.offset, comment.end, inside)
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
