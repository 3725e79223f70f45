"""The fixes of one project, made in memory: in rounds, until there are no more, and checked again as a whole."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from shardlint.config.folders import Places
from shardlint.engine.one_file import Checker
from shardlint.engine.results import Options, Outcome
from shardlint.model.project import Project
from shardlint.rewrite.bracket_alignment import align_layer
from shardlint.rewrite.edits import Layer, back_through, choose_disjoint_fixes, forward_through
from shardlint.rewrite.empty_lines import space_layer
from shardlint.rewrite.line_length import configured_length
from shardlint.rewrite.line_wrapping import line_length, wrap_lines
from shardlint.rewrite.tree_checks import explain_misread
from shardlint.rewrite.unused_imports import drop_unused_imports
from shardlint.rules_api.rule import Edit, Finding, Fix, Safety
from shardlint.source.decoding import decode_file
from shardlint.source.lazy import dataclass
from shardlint.source.text import Source, Unreadable
from shardlint.syntax import FileFacts, NotParsed, read_facts

# A fix may uncover another finding; more rounds than this means two rules undo each other.
_ROUNDS = 10


@dataclass
class Refused:
    """Fixes that are not made, each with its reason: by file, code and place in the file as it was, or by what they are
    right together with."""

    single: dict[tuple[Path, str, int], str] = field(default_factory=dict)
    groups: dict[tuple[str, ...], str] = field(default_factory=dict)

    def refuse_fix(self, applied_fix: AppliedFix, why: str) -> None:
        """Refuse a fix, and all that is right only with it."""
        self.single.setdefault((applied_fix.path, applied_fix.finding.rule.code, applied_fix.origin), why)
        if applied_fix.files_of_change:
            self.groups.setdefault(applied_fix.files_of_change, why)

    def copy_refusals(self) -> Refused:
        """Another one, of the same."""
        return Refused(dict(self.single), dict(self.groups))

    def reason_refused(self, path: Path, finding: Finding, origin: int) -> str:
        """Why a finding's fix is not made; empty where it may be."""
        group = finding.fix.together if finding.fix is not None else ()
        return self.single.get((path, finding.rule.code, origin)) or self.groups.get(group, "")


@dataclass(frozen=True)
class AppliedFix:
    """A fix that was made. `layer` is how many layers of edits came before; `origin` where it began in the file."""

    path: Path
    finding: Finding
    layer: int
    origin: int

    @property
    def files_of_change(self) -> tuple[str, ...]:
        """The files of the change that it is part of."""
        return self.finding.fix.together if self.finding.fix is not None else ()


@dataclass
class FileInProgress:
    """One file: as it was, as it is by now, and what was done to it. `reason` is why nothing may be done."""

    path: Path
    before: Source
    first: list[Finding]
    findings: list[Finding]
    after: Source
    layers: list[Layer] = field(default_factory=list)
    made: list[AppliedFix] = field(default_factory=list)
    drops: set[str] = field(default_factory=set)
    reason: str = ""

    @property
    def is_changed(self) -> bool:
        """True if the text is another."""
        return self.after.text != self.before.text

    def original_start(self, finding: Finding) -> int:
        """Where what a finding of the text by now is about began in the file."""
        return back_through(self.layers, finding.start)

    def original_end(self, finding: Finding) -> int:
        """Where it ended, about."""
        return back_through(self.layers, finding.end)

    def current_start(self, applied_fix: AppliedFix) -> int:
        """Where what a fix was about begins by now."""
        return forward_through(self.layers[applied_fix.layer :], applied_fix.finding.start)

    def changed_lines(self, applied_fix: AppliedFix) -> set[int]:
        """The lines that a fix changed, as they are numbered by now."""
        edits = applied_fix.finding.fix.edits if applied_fix.finding.fix is not None else ()
        found: set[int] = set()
        for edit in edits:
            begin = self.layers[applied_fix.layer].new_start(edit)
            first = self.after.position_of(forward_through(self.layers[applied_fix.layer + 1 :], begin))[0]
            found.update(range(first, first + edit.text.count(self.after.common_newline) + 1))
        return found


class Attempt:
    """An attempt at the files of one project."""

    def __init__(
        self,
        outcomes: Sequence[Outcome],
        options: Options,
        unsafe: bool,
        root: str,
        places: Places,
        beside: Mapping[Path, Source] | None = None,
    ) -> None:
        self.outcomes = outcomes
        self.beside = beside or {}
        """The changed texts of other projects, or what an editor shows of files that were not saved."""
        self.wanted: Callable[[FileInProgress, Finding], bool] = lambda work, finding: True
        """Which fixes are asked for."""
        self.make_checker: Callable[[dict[Path, Source]], Checker] = lambda texts: Checker(
            self.options, texts, self.places
        )
        self.options, self.unsafe, self.root, self.places = options, unsafe, Path(root), places
        self.refused = Refused()
        self.length = configured_length(self.root)
        self.works: dict[Path, FileInProgress] = {}

    def apply_fixes(self) -> None:
        """Make what may be made, from the start."""
        self.works = {}
        for outcome in self.outcomes:
            if outcome.report is not None:
                source, found = outcome.report.source, outcome.report.findings
                self.works[outcome.path] = FileInProgress(outcome.path, source, found, found, source)
                if outcome.reason is not None:
                    self.works[outcome.path].reason = outcome.reason
        for _ in range(_ROUNDS):
            if not self._fix_round():
                return

    def incomplete_changes(self) -> Iterator[tuple[AppliedFix, str]]:
        """Fixes of a change that is right only as a whole, of which some file keeps its part; and why."""
        changed: dict[tuple[str, ...], set[str]] = {}
        every = [(work, made) for work in self.works.values() for made in work.made if made.files_of_change]
        for work, made in every:
            changed.setdefault(made.files_of_change, set()).add(str(work.path.resolve()))
        for _, made in every:
            missing = [path for path in made.files_of_change if path not in changed[made.files_of_change]]
            if missing:
                name = Path(missing[0]).name
                yield made, f"{name} must change with it, but is excluded, not selected or suppressed"

    def changed_texts(self) -> dict[Path, Source]:
        """The changed texts, by the files' real paths."""
        own = {work.path.resolve(): work.after for work in self.works.values() if work.is_changed}
        return {**self.beside, **own}

    def overlay_checker(self, overlay: Mapping[Path, Source] | None = None) -> Checker:
        """One that sees the changed texts."""
        return self.make_checker(dict(self.changed_texts() if overlay is None else overlay))

    def _fix_round(self) -> bool:
        """Make the fixes that there are in each file; whether any was made."""
        project = Project(self.root, self.changed_texts())
        changed = [work for work in self.works.values() if self._apply_fixes(work, project)]
        if not changed:
            return False
        checker = self.overlay_checker()
        for work in self.works.values():
            if not work.reason and (work.findings or work in changed):
                again = checker.check_file(work.path, work.after.encode_file())
                work.findings = again.report.findings if again.report is not None else []
        checker.let_go()
        return True

    def _apply_fixes(self, file_work: FileInProgress, project: Project) -> bool:
        findings = [finding for finding in file_work.findings if self._may_fix(file_work, finding)]
        if findings and not file_work.layers and not file_work.reason:
            file_work.reason = _explain_untouchable(file_work.before, file_work.path)
        if file_work.reason:
            self._give_up(file_work, findings)
            return False
        chosen, layer = choose_disjoint_fixes(findings)
        if chosen and (wrong := _explain_broken_layer(file_work.after, layer)):
            chosen, layer = self._first_breaking_fix(file_work, chosen, wrong)
        layers = layers_with_layout(file_work.after, layer, self.length, file_work.before.text) if chosen else []
        text = file_work.after.text
        for one in layers:
            text = one.apply_edits(text)
        file_work.drops |= {name for finding in chosen if finding.fix is not None for name in finding.fix.drops}
        gone = _remove_unused_imports(file_work, text, project, self.length)
        if gone.edits:
            layers.append(gone)
            text = gone.apply_edits(text)
        if text == file_work.after.text:
            return False
        file_work.made += [
            AppliedFix(file_work.path, finding, len(file_work.layers), file_work.original_start(finding))
            for finding in chosen
        ]
        file_work.layers += layers
        file_work.after = file_work.after.with_text(text)
        return True

    def _may_fix(self, file_work: FileInProgress, finding: Finding) -> bool:
        if not is_fix_wanted(finding.fix, self.unsafe) or not self.wanted(file_work, finding):
            return False
        return not self.refused.reason_refused(file_work.path, finding, file_work.original_start(finding))

    def _give_up(self, file_work: FileInProgress, findings: Sequence[Finding]) -> None:
        """Nothing may be done to a file: what is right only with its part is not done elsewhere either."""
        for finding in findings:
            if finding.fix is not None and finding.fix.together:
                why = f"{file_work.path.name} must change with it: {file_work.reason}"
                self.refused.groups.setdefault(finding.fix.together, why)

    def _first_breaking_fix(
        self, file_work: FileInProgress, chosen: list[Finding], wrong: str
    ) -> tuple[list[Finding], Layer]:
        """Where the fixes together break a file: the first that does not by itself. Two may empty one block."""
        for finding in chosen:
            some, layer = choose_disjoint_fixes([finding])
            alone = _explain_broken_layer(file_work.after, layer)
            if alone is None:
                return some, layer
            made = AppliedFix(file_work.path, finding, len(file_work.layers), file_work.original_start(finding))
            self.refused.refuse_fix(made, f"the file would not be valid ({alone})")
        return [], Layer(())

    def remaining_findings(self, file_work: FileInProgress, findings: Sequence[Finding]) -> Iterator[Finding]:
        """Findings of the file as it is by now; a fix that was refused is a reason in words."""
        for finding in findings:
            why = file_work.reason or self.refused.reason_refused(
                file_work.path, finding, file_work.original_start(finding)
            )
            if why and finding.fix is not None:
                help = f"{finding.fix.message}; not fixed: {why}"
                kept = None if finding.obstacles is None else (self._reason_with_place(file_work, finding, why),)
                finding = replace(finding, fix=None, help=help, obstacles=kept)
            yield finding

    def _reason_with_place(self, file_work: FileInProgress, finding: Finding, why: str) -> str:
        path = file_work.path.resolve()
        shown = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        return file_work.after.translate_message(
            f"{shown.as_posix()}:{file_work.after.position_of(finding.start)[0]}: {why}"
        )


def layers_with_layout(before: Source, layer: Layer, length: int | None, like: str) -> list[Layer]:
    """Edits, and those that break and align the lines that they changed; without a `length` as long as others are."""
    text = layer.apply_edits(before.text)
    wraps = wrap_lines(before, layer, text, length or line_length(like))
    for broken in wraps:
        text = broken.apply_edits(text)
    lined = align_layer(before, layer, wraps, text)
    layers = [layer, *wraps, *([lined] if lined.edits else [])]
    empty = space_layer(before, layer, layer.apply_edits(before.text)) if len(layers) == 1 else Layer(())
    return [*layers, *([empty] if empty.edits else [])]


def is_fix_wanted(fix: Fix | None, unsafe: bool) -> bool:
    """Return whether a fix may be applied."""
    return fix is not None and (fix.safety is Safety.SAFE or unsafe)


def _remove_unused_imports(file_work: FileInProgress, text: str, project: Project, length: int | None) -> Layer:
    """Without the imports that fixes left unused, now or in an earlier round."""
    if not file_work.drops:
        return Layer(())
    try:
        facts = read_facts(file_work.after.with_text(text), file_work.path.resolve())
    except NotParsed:
        return Layer(())
    was = file_work.before.text
    edits: list[Edit] = drop_unused_imports(facts, file_work.drops, project, was, length or line_length(was))
    layer = Layer.sort_edits(edits)
    return (
        layer
        if edits and _explain_unwritable(file_work.after.with_text(layer.apply_edits(text))) is None
        else Layer(())
    )


def _explain_untouchable(source: Source, path: Path) -> str:
    """Why a file is not to be rewritten at all; empty where it may be."""
    if not source.exact:
        return f"its encoding {source.encoding} would change every byte; save it as UTF-8"
    try:  # a file in which only comments were looked at need not be Python
        broken = _explain_compile_error(read_facts(source, path))
    except NotParsed as error:
        return str(error)
    return f"Python cannot compile the result: {broken}" if broken is not None else ""


def _explain_broken_layer(before: Source, layer: Layer) -> str | None:
    """Why the edits of a layer must not be made: the text would be no program, or another one outside the edits."""
    after = before.with_text(layer.apply_edits(before.text))
    if (wrong := _explain_unwritable(after)) is not None:
        return wrong
    return explain_misread(read_facts(before, before.path), layer, read_facts(after, after.path))


def _explain_unwritable(after: Source) -> str | None:
    """Why a text cannot be written; None where it can."""
    try:
        facts = read_facts(after, after.path)
        read = decode_file(after.path, after.encode_file())
    except (NotParsed, Unreadable) as error:
        return str(error)
    if read.text != after.text:  # a coding cookie came or went
        return f"Python would read the result as {read.encoding}, but it is written as {after.encoding}"
    return _explain_compile_error(facts)


def _explain_compile_error(file: FileFacts) -> str | None:
    """Return Python's error for a text that parses but does not compile, such as a late `from __future__`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if file.source.in_cells else 0
            compile(file.tree, str(file.path), "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        return None
    return None
