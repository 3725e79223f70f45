"""One file to its findings: screen, facts, program, sites, rules, suppressions."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config.certainty import Certainty
from shardlint.config.folders import Places, ScopeKey, folder_of, scope_key
from shardlint.config.settings import Settings
from shardlint.config.targets import Targets, find_targets
from shardlint.engine.catalogue import Card, may_reach_certainty, rule_cards
from shardlint.engine.conditions import ProjectConditions
from shardlint.engine.index import RuleIndex
from shardlint.engine.results import Fault, FileReport, Options, Outcome
from shardlint.engine.rule_limit import SECONDS, TookTooLong, keep_limits, limit_time
from shardlint.model.project import Answers, Project
from shardlint.rules_api.registry import UnknownRule, codes_matching, rule_entries, select_codes
from shardlint.rules_api.rule import Finding
from shardlint.source.decoding import decode_file
from shardlint.source.find import is_path_matched
from shardlint.source.import_graph import ImportGraph
from shardlint.source.lazy import dataclass
from shardlint.source.newer_syntax import explain_newer_syntax
from shardlint.source.notebook import Notebook, program_text
from shardlint.source.packs import BrokenPack
from shardlint.source.patterns import compile_lazily
from shardlint.source.screen import Texts
from shardlint.source.suppress import find_suppressions
from shardlint.source.text import NOTEBOOKS, Source, Unreadable, read_bytes
from shardlint.source.timing import timed
from shardlint.syntax import NotParsed, check_parses
from shardlint.syntax.parts import Part

# What follows is imported for files in which a rule may find something: many have no such word.
if TYPE_CHECKING:
    from shardlint.engine.groups import Before, FileCheck
    from shardlint.model import Program
    from shardlint.model.bits import Need
    from shardlint.model.rechecked_project import InvalidatedFacts
    from shardlint.rules_api.site import Site

_OWN = frozenset({"SL001", "SL002", "SL003", "SL005"})
# What rules trigger on takes longer to say than a small project takes to check, and a fix makes many checkers.
_INDICES: dict[tuple[tuple[Card, ...], Certainty, tuple[str, ...]], RuleIndex] = {}
_MOST_INDICES = 24
_IN_A_STRING = compile_lazily(r": (?:\((?:unicode|value) error\)|bytes can only contain ASCII)")


@dataclass
class _Scope:
    """State shared by the files under one settings file and project."""

    settings: Settings
    codes: frozenset[str]
    """Of the rules that run."""
    reported: frozenset[str]
    """Of those whose findings are asked for."""
    index: Callable[[], RuleIndex]
    """Of all of them; files that say nothing of shardlint itself have no use for it."""
    ever: RuleIndex
    """Of what may trigger on other releases too."""
    wanted: RuleIndex
    """Without the rules that find nothing as sure as is asked for."""
    targets: Targets
    project: Project
    least: Certainty
    ignores: tuple[tuple[str, frozenset[str]], ...]
    """Patterns of files, and the codes left out there."""

    @cached_property
    def project_program(self) -> Program:
        """Return the model of the project for questions beyond its texts."""
        from shardlint.model import Program

        return Program(self.project.root, own_names=self.settings.own_names, project=self.project)

    def ignored_codes(self, path: Path) -> frozenset[str]:
        """The codes that the settings leave out for a file."""
        if not self.ignores or self.settings.path is None:
            return frozenset()
        base, real = Path(os.path.realpath(self.settings.settings_folder)), Path(os.path.realpath(path))
        here = [codes for pattern, codes in self.ignores if is_path_matched([pattern], real, base)]
        return frozenset().union(*here)


class Checker:
    """Checks files, one project at a time. Holds the programs, so that files of one project are linked once."""

    def __init__(
        self,
        options: Options,
        overlay: dict[Path, Source] | None = None,
        places: Places | None = None,
        answers: Mapping[ScopeKey, Answers] | None = None,
        before: Callable[[str], Before | None] | None = None,
        graphs: Mapping[ScopeKey, Callable[[], ImportGraph | None]] | None = None,
    ) -> None:
        self.options = options
        self._overlay = overlay or {}
        self._places = places or Places(config=options.config)
        self._answers: dict[ScopeKey, Answers] = dict(answers or {})
        """What is known of searches through a project, from an earlier run."""
        self._before = before
        """Says what is known of a file, by its real path, from before something changed. None: nothing is kept."""
        self._graphs = graphs or {}
        """Which files of the projects import which, where it is known from an earlier run."""
        self._parts: dict[str, tuple[Part, ...]] = {}
        self._scopes: dict[ScopeKey, _Scope] = {}
        self._real: dict[str, str] = {}
        self._last: _Scope | None = None
        self._unfit: dict[str, dict[str, str]] = {}
        """The rules that are not run on a file, by its real path, each with the reason."""
        self._texts: dict[str, Texts] = {}
        """What was looked for in the texts of editors, by their real paths."""
        self.pause: Callable[[], None] = lambda: None
        """Called now and then. What it raises, if it is no `Exception`, ends the check of the file."""

    def make_updated(
        self,
        overlay: dict[Path, Source],
        changed: Collection[Path],
        files: Mapping[str, dict[Path, int]],
        beside: bool = False,
    ) -> tuple[Checker, InvalidatedFacts]:
        """A checker after some files changed, which keeps what is known of the others; and what is no longer so.

        `files` are the files of projects, by their roots, in which some came or went. The one before must be let go
        of, by `dispose`, unless the new one is used only for a while, `beside` it.
        """
        from shardlint.model import Program
        from shardlint.model.rechecked_project import InvalidatedFacts, update_project

        after = Checker(self.options, overlay, self._places, before=self._before)
        after._real, after.pause = self._real, self.pause
        after._texts = {} if beside else {path: texts for path, texts in self._texts.items() if Path(path) in overlay}
        gone = InvalidatedFacts()
        for key, scope in self._scopes.items():
            project, moved = update_project(scope.project, overlay, changed, files.get(key[1]), beside)
            program = Program(project.root, overlay, scope.settings.own_names, project)
            program.inherit_answers(scope.project_program, moved)
            after._scopes[key] = replace(scope, project=project)
            after._scopes[key].project_program = program
            gone |= moved
        return after, gone

    def release_to(self, heir: Checker) -> None:
        """Let go of all but what was lent to another."""
        for key, scope in self._scopes.items():
            successor = heir._scopes[key].project_program
            scope.project.lent = dict(successor.project.lent)
            scope.project_program.end_for_heir(successor)
        self._scopes.clear()

    def checked_projects(self) -> list[Project]:
        """The projects of the files that were checked."""
        return [scope.project for scope in self._scopes.values()]

    def program_and_targets(self, path: Path) -> tuple[Program, Targets]:
        """The program and the releases that hold for a file, by absolute path."""
        scope = self._scope_of_folder(folder_of(path))
        return scope.project_program, scope.targets

    def targets_for(self, path: Path) -> Targets:
        """The targets that hold for a file or folder, by absolute path."""
        return self._scope_of_folder(folder_of(path)).targets

    def root_for(self, path: Path) -> str:
        """The root of the project that a file is in."""
        return self._places.project_root(os.path.dirname(self._real_path(path)))

    def _real_path(self, path: Path) -> str:
        if os.path.islink(path):
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        if folder not in self._real:
            self._real[folder] = os.path.realpath(folder)
        return os.path.join(self._real[folder], name)

    def search_answers(self) -> dict[ScopeKey, Answers]:
        """Return the results of searches through the projects of the checked files, including those by other
        processes.
        """
        found: dict[ScopeKey, Answers] = {
            key: scope.project.answers for key, scope in self._scopes.items()
        }
        return {
            key: {**self._answers.get(key, {}), **found.get(key, {})} for key in {**self._answers, **found}
        }

    def parsed_parts(self) -> dict[str, tuple[Part, ...]]:
        """The parts of all files that were parsed, by other processes too, where anything is to be kept."""
        if self._before is not None:
            for scope in self._scopes.values():
                self._parts.update((str(path), parts) for path, parts in scope.project.parts.items())
        return self._parts

    def _programs(self) -> list[Program]:
        """The models of the projects that were asked for one."""
        return [one.project_program for one in self._scopes.values() if "project_program" in vars(one)]

    def let_go(self) -> None:
        """Let go of all that was read of the projects so far."""
        self.parsed_parts()
        for program in self._programs():
            program.forget_trees()
        self._scopes.clear()
        self._last = None
        self._answers.clear()

    def learn_answers(self, answers: Mapping[ScopeKey, Answers], parts: Mapping[str, tuple[Part, ...]]) -> None:
        """Take over what another process found."""
        self._parts.update(parts)
        for key, found in answers.items():
            self._answers[key] = {**self._answers.get(key, {}), **found}

    def _scope_of_folder(self, folder: str) -> _Scope:
        settings = self._places.settings_for(folder)
        key = scope_key(settings, self._places.project_root(folder))
        if key not in self._scopes:
            self._scopes[key] = self._make_scope(settings, key)
        return self._scopes[key]

    def _make_scope(self, settings: Settings, key: ScopeKey) -> _Scope:
        options, root = self.options, Path(key[1])
        ignores = _read_per_file_ignores(settings)
        reported = select_codes(
            options.select or settings.select,
            (*settings.ignore, *options.ignore),
            (*(() if options.select else settings.extend_select), *options.extend_select),
        )
        if options.harm:
            reported &= frozenset(codes_matching(options.harm))
        ever = rules = tuple(rule_cards(_rules_to_run(reported, settings, options)).values())
        targets = find_targets(root, options.targets, settings.targets, settings.file_name)
        rules = tuple(
            rule for rule in rules if all(targets.is_release_in(p, spec) for p, spec in rule.known.releases.items())
        )
        sure = settings.least_certainty(options.certainty)
        asked = [rule for rule in rules if may_reach_certainty(rule, sure)]
        project = Project(root, self._overlay, by_part=self._before is not None, graph=self._graphs.get(key))
        project.answers.update(self._answers.get(key, {}))
        return _Scope(
            settings,
            frozenset(rule.rule_code for rule in rules),
            reported,
            lambda: self._index_of_rules(rules, settings),
            self._index_of_rules([rule for rule in ever if may_reach_certainty(rule, sure)], settings),
            self._index_of_rules(asked, settings, sure),
            targets,
            project,
            sure,
            ignores,
        )

    def _index_of_rules(
        self, rules: Sequence[Card], settings: Settings, sure: Certainty = Certainty.POSSIBLE
    ) -> RuleIndex:
        own = settings.own_names
        key = tuple(rules), sure, own.triggering_names
        if key not in _INDICES:
            if len(_INDICES) >= _MOST_INDICES:
                _INDICES.clear()
            same = [one for other, one in _INDICES.items() if (other[0], other[2]) == (key[0], key[2])]
            _INDICES[key] = same[0].with_certainty(sure) if same else RuleIndex.index_rules(rules, sure, own)
        return _INDICES[key]

    def check_file(self, path: Path, data: bytes | None = None) -> Outcome:
        """Check one file, or other text in its place."""
        real = self._real_path(path)
        scope = self._scope_of_folder(os.path.dirname(real))
        try:
            with timed("reading"):
                given = self._overlay.get(Path(real)) if data is None else None
                if given is not None:
                    data = python = given.text.encode("utf-8", "surrogatepass")
                else:
                    data = read_bytes(path, named=True) if data is None else data
                    python = program_text(path, data) or b""  # what cannot be read, `decode` below says why
        except Unreadable as error:
            return self._not_read(scope, path, str(error))
        # A finding that is not sure enough to be reported still makes its suppression a used one.
        commented = b"shardlint:" in python
        index = scope.index() if commented else scope.wanted
        with timed("screening"):
            texts = Texts(python, self._texts.pop(real, None))
            if given is not None:
                self._texts[real] = texts
            ever = scope.ever.make_screen.find_words(texts)
        needs = scope.project.needs
        needs.begin_answer()
        hits = []
        if ever or commented:
            hits = index.make_screen.find_words(texts) if commented else index.make_screen.filter_words(ever, texts)
        absolute = Path(real)
        words = index.words_in(hits, texts, _surroundings_of_file(scope, absolute, texts)) if hits else ()
        look: FileCheck | None = None
        faults: dict[str, Fault] = {}
        try:
            source = self._overlay.get(absolute) or decode_file(path, data)
            if words:
                look = self._look_at_file(scope, absolute, source, index, texts)
                unfit = self._unfit.get(real, {})
                with keep_limits():
                    for rule, failure in look.run_rules(
                        words, lambda site: _findings_at_site(site, unfit), self.pause
                    ):
                        faults[rule.code] = Fault(rule.code, str(failure))
            else:
                check_parses(source.text)
        except RuleStopped as stopped:
            self.let_go()
            self._unfit.setdefault(real, {})[stopped.code] = stopped.reason
            return self.check_file(path, data if given is None else None)
        except BrokenPack:
            raise
        except Unreadable as error:
            return self._not_read(scope, path, str(error), ())
        except NotParsed as error:
            return self._not_parsed(scope, path, source, error)
        except RecursionError:
            return self._not_parsed(scope, path, source, NotParsed("the file is nested too deeply to check"))
        except Exception as error:
            return Outcome(
                path, None, f"shardlint failed here, please report it: {error!r}", failed=True
            )
        unparsed = self._left_out(scope, path, source)
        if not words and not commented and not unparsed:
            return Outcome(path, quiet=not ever, needed=needs.named_needs(needs.now) if ever else None)
        from shardlint.engine.suppressed_findings import comment_findings, unsuppressed_findings

        found = _keep_surest(look.collect_findings(), faults) if look is not None else []
        comments = find_suppressions(source.text, source.line_starts)
        ran = None if faults else scope.codes
        kept = [
            *unsuppressed_findings(source, found, comments, scope.least),
            *comment_findings(source, comments, ran),
        ]
        wanted = scope.reported - scope.ignored_codes(path)
        kept = sorted((one for one in kept if one.rule.code in wanted), key=_finding_order)
        if source.in_cells:
            kept = sorted(
                [*(_replace_words(one, source.translate_message) for one in kept), *unparsed], key=_finding_order
            )
        kept = [self._translate_notebook_places(one, scope, absolute) for one in kept]
        report = FileReport(path, source, kept) if kept else None
        if faults:  # nothing is kept of it for the next run
            return Outcome(path, report, failed=True, faults=tuple(faults.values()))
        if self._before is None:
            return Outcome(path, report)
        if look is None:
            return Outcome(path, report, needed=needs.named_needs(needs.now))
        needed, record = look.make_record()
        return Outcome(path, report, needed=needed, record=record)

    def _translate_notebook_places(self, finding: Finding, scope: _Scope, path: Path) -> Finding:
        """A finding with the places in notebooks that it rests on as people see them."""
        said = repr(
            replace(finding, rests=())
        )  # a finding may rest on all the notebooks of a project, and names one or two
        for other in finding.rests:
            if other.endswith(NOTEBOOKS) and other != str(path) and os.path.basename(other) in said:
                facts = scope.project.facts(Path(other))
                if facts is not None:
                    finding = _replace_words(finding, facts.source.translate_message_of_other)
        return finding

    def _look_at_file(
        self, scope: _Scope, absolute: Path, source: Source, index: RuleIndex, texts: Texts
    ) -> FileCheck:
        from shardlint.engine.groups import FileCheck
        from shardlint.model import Program

        if self._last is not None and self._last is not scope:
            Program.trim_projects(self._programs())
        self._last = scope
        scope.project_program.trim_memory()
        facts = scope.project.parse_checked(source, absolute)
        facts.inherit_line_beginnings(texts.beginnings)
        known = self._before(str(absolute)) if self._before is not None else None
        return FileCheck(scope.project_program, facts, index, scope.targets, known, self._before is not None)

    def _not_read(
        self, scope: _Scope, path: Path, reason: str, needs: tuple[Need, ...] | None = None
    ) -> Outcome:
        source = Source(path, "")
        return Outcome(path, self._report_not_parsed(scope, path, source, 0, reason), reason, needed=needs)

    def _not_parsed(self, scope: _Scope, path: Path, source: Source, error: NotParsed) -> Outcome:
        line = min(error.line, len(source.line_starts))
        offset = min(source.line_starts[line - 1] + error.column - 1, len(source.text))
        reason = source.translate_message(str(error))
        if error.newer and not _IN_A_STRING.search(reason):  # libcst does not look into strings
            reason += explain_newer_syntax(source)
        return Outcome(path, self._report_not_parsed(scope, path, source, offset, reason), reason, needed=())

    def _left_out(self, scope: _Scope, path: Path, source: Source) -> list[Finding]:
        """A finding for each cell of a notebook that cannot be parsed."""
        if not isinstance(source, Notebook) or "SL001" not in scope.reported - scope.ignored_codes(path):
            return []
        from shardlint.rules_api.builtin import FileNotParsed

        return [
            Finding(
                FileNotParsed, at, at, "",
                f"{reason[0].upper()}{reason[1:]}. The cell is skipped: other cells do not know the names that it "
                "defines.",
                harm=FileNotParsed.harm,
            )
            for at, _, reason in source.unparsable_cells()
        ]  # fmt: skip

    def _report_not_parsed(
        self, scope: _Scope, path: Path, source: Source, offset: int, reason: str
    ) -> FileReport | None:
        if "SL001" not in scope.reported - scope.ignored_codes(path):
            return None
        from shardlint.rules_api.builtin import FileNotParsed

        finding = Finding(
            FileNotParsed, offset, offset, "", f"{reason[0].upper()}{reason[1:]}. Nothing in the file was checked.",
            harm=FileNotParsed.harm,
        )  # fmt: skip
        return FileReport(path, source, [finding])


def _surroundings_of_file(scope: _Scope, path: Path, own: Texts) -> ProjectConditions:
    project = scope.project

    def says_any(texts: tuple[str, ...], or_own: tuple[str, ...]) -> bool:
        return any(own[text.encode()] for text in (*texts, *or_own)) or project.is_text_in_files(path, *texts)

    imports = cache(lambda module: project.is_module_imported(path, module))
    return ProjectConditions(
        imports, cache(says_any), project.is_test(path), lambda: bool(project.mapping_importers(path))
    )


def _is_reported_at(found: Mapping[tuple[str, int, int], Finding], finding: Finding) -> bool:
    """Return whether a rule that takes precedence reports the place with the same or a higher certainty."""
    before = finding.rule.behind if isinstance(finding.rule, type) else ()
    others = (found.get((code, finding.start, finding.end)) for code in before)
    return any(other is not None and other.certainty.is_at_least(finding.certainty) for other in others)


def _keep_surest(findings: Iterable[Finding], faults: Collection[str]) -> list[Finding]:
    """Return the findings with the highest certainty at each place, without those of failed rules."""
    found: dict[tuple[str, int, int], Finding] = {}
    for finding in findings:
        place = finding.rule.code, finding.start, finding.end
        if place not in found or not found[place].certainty.is_at_least(finding.certainty):
            found[place] = finding
    kept = [one for one in found.values() if one.rule.code not in faults and not _is_reported_at(found, one)]
    return sorted(kept, key=_finding_order)


def _finding_order(finding: Finding) -> tuple[int, int, str]:
    return finding.start, finding.end, finding.rule.code


def _replace_words(finding: Finding, told: Callable[[str], str]) -> Finding:
    """A finding with its words told otherwise."""
    fix = finding.fix
    return replace(
        finding,
        label=told(finding.label),
        message=told(finding.message),
        help=told(finding.help),
        why=told(finding.why),
        fix=replace(fix, message=told(fix.message), why=told(fix.why)) if fix is not None else None,
        obstacles=None if finding.obstacles is None else tuple(map(told, finding.obstacles)),
    )


def _read_per_file_ignores(settings: Settings) -> tuple[tuple[str, frozenset[str]], ...]:
    """The patterns and codes of `per-file-ignores`. Raises `UnknownRule`, with the file, for whatever setting."""

    def codes_of_selectors(key: str, selectors: Sequence[str]) -> frozenset[str]:
        try:
            return frozenset(codes_matching(selectors))
        except UnknownRule as error:
            raise UnknownRule(f"{settings.path}: {key}: {error}") from None

    codes_of_selectors("select", settings.select)
    codes_of_selectors("extend-select", settings.extend_select)
    codes_of_selectors("ignore", settings.ignore)
    return tuple(
        (pattern, codes_of_selectors(f"per-file-ignores.{pattern}", selectors))
        for pattern, selectors in settings.per_file_ignores.items()
    )


def _rules_to_run(reported: frozenset[str], settings: Settings, options: Options) -> frozenset[str]:
    """The rules that must run to find what is asked for.

    Whether a suppression is used rests on what the other rules would say.
    """
    if "SL002" not in reported:
        return reported
    usual = select_codes(settings.select, settings.ignore, settings.extend_select)
    if not usual - _OWN:
        usual = select_codes((), settings.ignore)
    return reported | (usual - frozenset(codes_matching(options.ignore)))


def _findings_at_site(site: Site, unfit: Mapping[str, str]) -> list[Finding]:
    """A rule's findings at a site. Raises `RuleFailed`, also for a rule that is `unfit` for the file."""
    from shardlint.engine.groups import RuleFailed

    rule = site.rule
    if rule.code in unfit:
        raise RuleFailed(unfit[rule.code])
    line, pack, path = getattr(site.syntax, "lineno", 1), rule_entries()[rule.code].pack, site.file.path
    try:
        with timed(f"{rule.code} {rule.name}"), limit_time(lambda: f"{rule.code} ({pack}) at line {line} of {path}"):
            findings = list(site.findings())
        for finding in findings:
            if not isinstance(finding, Finding):
                raise TypeError(f"{finding!r} is not a Finding")
            if not 0 <= finding.start <= finding.end <= len(site.file.untracked_source.text):
                raise ValueError(f"characters {finding.start} to {finding.end} are not in the file")
        return findings
    except KeyboardInterrupt:
        raise
    except TookTooLong:
        raise RuleStopped(
            rule.code,
            f"{rule.code} ({pack}) was stopped at line {line} after {SECONDS:g} seconds: its findings in this "
            "file are missing; please report it to its authors",
        ) from None
    except BaseException as error:  # of a pack: pyo3 panics are no `Exception`, nor is GeneratorExit
        if isinstance(error, RecursionError) and rule_entries()[rule.code].is_builtin:
            raise  # the file is nested too deeply: our rules are not recursive for other reasons
        raise RuleFailed(
            f"{rule.code} ({pack}) failed at line {line}: {type(error).__name__}: {error}. Its findings in "
            "this file are missing; please report it to its authors"
        ) from error


class RuleStopped(BaseException):
    """A rule that was stopped in the middle of something: what the program remembers may be half made."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
