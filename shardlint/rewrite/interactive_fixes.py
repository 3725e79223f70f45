"""Fixes one by one: each is shown as a diff, and made where the answer is yes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from shardlint.output.printable import make_printable
from shardlint.rewrite.edits import choose_disjoint_fixes
from shardlint.rewrite.fix import FixedFile, unified_diff
from shardlint.rewrite.project_fixes import AppliedFix, Attempt, FileInProgress, layers_with_layout
from shardlint.rewrite.unused_imports import drop_unused_imports
from shardlint.source.lazy import dataclass
from shardlint.syntax import NotParsed, read_facts

_NO, _STOPPED = "you declined it", "input ended before this question"
_ONLY_TOGETHER = "; it works only together with "
_HELP = (
    "y: apply it; n: leave it; a: apply it and all others of {codes}; q: leave it and the rest, keep what "
    "was accepted"
)


@dataclass(frozen=True)
class Unit:
    """Changes that are accepted or rejected together: one fix, or the fixes of a change of several files."""

    key: tuple[object, ...]
    made: tuple[AppliedFix, ...]

    @property
    def rule_codes(self) -> list[str]:
        """The rules, each once."""
        return list(dict.fromkeys(one.finding.rule.code for one in self.made))


class Asking:
    """A gate that asks. `tell` shows a line; `ask` shows a question and gives the answer, None at the end of all."""

    def __init__(self, tell: Callable[[str], None], ask: Callable[[str], str | None]) -> None:
        self._tell, self._ask = tell, ask
        self._yes: set[tuple[object, ...]] = set()
        self._all: set[str] = set()
        self._over = self._waiting = False

    def __call__(self, attempt: Attempt) -> Iterator[tuple[AppliedFix, str]]:
        """The fixes that are not wanted. Behind one of them the rest of its file may be another."""
        waiting = [unit for unit in attempt_units(attempt) if not self._is_wanted(unit)]
        for number, unit in enumerate(waiting, 1):
            if not self._over and self._is_unit_wanted(attempt, unit, f"{number} of {len(waiting)}"):
                continue
            why = _STOPPED if self._over else _NO
            yield from ((one, why) for one in unit.made)
            if not self._over and any(_rests_on(unit, other) for other in waiting[number:]):
                return

    @contextlib.contextmanager
    def keep_answers(self) -> Iterator[None]:
        """Ctrl-C between the questions ends them; what was accepted by then is still made."""

        def stop_asking(number: int, frame: FrameType | None) -> None:
            if self._waiting or self._over or not (self._yes or self._all):
                raise KeyboardInterrupt
            self._over = True

        before = signal.signal(signal.SIGINT, stop_asking)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _is_wanted(self, unit: Unit) -> bool:
        return unit.key in self._yes or self._all.issuperset(unit.rule_codes)

    def _is_unit_wanted(self, attempt: Attempt, unit: Unit, number: str) -> bool:
        if self._is_wanted(unit):  # since the answer about another
            return True
        for line in describe_unit(attempt, unit):
            self._tell(line)
        codes = ", ".join(unit.rule_codes)
        while True:
            answer = self._ask_question(f"Apply this fix ({number})? [y]es, [n]o, [a]ll of {codes}, [q]uit: ")
            if answer in ("y", "yes"):
                self._yes.add(unit.key)
                return True
            if answer in ("a", "all"):
                self._all.update(unit.rule_codes)
                return True
            if answer in ("n", "no"):
                return False
            if answer in ("q", "quit"):
                self._over = True
                return False
            self._tell(_HELP.format(codes=codes))

    def _ask_question(self, question: str) -> str:
        self._waiting = True
        try:
            said = self._ask(question)
        except KeyboardInterrupt:  # also one that comes while the question is being written
            self._tell("")  # what is said next begins on a line of its own
            said = None
        finally:
            self._waiting = False
        return "q" if said is None else said.strip().lower()


def attempt_units(attempt: Attempt) -> list[Unit]:
    """All that an attempt made, in the order of the files and of what rests on what."""
    found: dict[tuple[object, ...], list[AppliedFix]] = {}
    for work in attempt.works.values():
        for made in work.made:
            key = made.files_of_change or (made.path, made.finding.rule.code, made.origin)
            found.setdefault(key, []).append(made)
    return [Unit(key, tuple(made)) for key, made in found.items()]


def _rests_on(unit: Unit, other: Unit) -> bool:
    return any(one.path == two.path and one.layer < two.layer for one in unit.made for two in other.made)


def describe_unit(attempt: Attempt, unit: Unit) -> Iterator[str]:
    """Yield the description of a unit, and the diff of it alone."""
    for about in dict.fromkeys(_describe_place(attempt, made) for made in unit.made):
        yield make_printable(about)
    why = dict.fromkeys(
        _explain_unsafe(unit, one) for one in unit.made if one.finding.fix and one.finding.fix.why
    )
    yield from (make_printable(f"   unsafe: {one}") for one in why)
    for path in dict.fromkeys(one.path for one in unit.made):
        made = [one for one in unit.made if one.path == path]
        alone = _file_with_fixes(attempt.works[path], made, attempt.length)
        for line in unified_diff(alone):
            yield make_printable(line.expandtabs(4))
        if _leaves_an_import(alone, made):
            yield "   It also removes an import that becomes unused."


def _explain_unsafe(unit: Unit, applied_fix: AppliedFix) -> str:
    """Why a fix is unsafe; of a change of several files, which is shown whole, without the names of the others."""
    why = applied_fix.finding.fix.why if applied_fix.finding.fix is not None else ""
    return why.partition(_ONLY_TOGETHER)[0] if len({one.path for one in unit.made}) > 1 else why


def _leaves_an_import(fixed_file: FixedFile, applied_fixes: Sequence[AppliedFix]) -> bool:
    """Return whether some fixes of a file leave a module-level import unused."""
    names = {name for one in applied_fixes if one.finding.fix is not None for name in one.finding.fix.drops}
    try:
        return bool(names) and bool(drop_unused_imports(read_facts(fixed_file.after, fixed_file.path.resolve()), names))
    except NotParsed:
        return False


def _describe_place(attempt: Attempt, applied_fix: AppliedFix) -> str:
    cell, line, column = attempt.works[applied_fix.path].before.locate_offset(applied_fix.origin)
    place = f"{line}:{column}" if cell is None else f"cell {cell}:{line}:{column}"
    rule, fix = applied_fix.finding.rule, applied_fix.finding.fix
    return f"{applied_fix.path}:{place}: {rule.code} {rule.name}: {fix.message if fix is not None else ''}"


def _file_with_fixes(file_work: FileInProgress, applied_fixes: Sequence[AppliedFix], length: int | None) -> FixedFile:
    """A file before and after some of its fixes, with those that came before them."""
    text = file_work.before.text
    for layer in file_work.layers[: applied_fixes[0].layer]:
        text = layer.apply_edits(text)
    before = file_work.before.with_text(text)
    for layer in layers_with_layout(
        before, choose_disjoint_fixes([one.finding for one in applied_fixes])[1], length, file_work.before.text
    ):
        text = layer.apply_edits(text)
    return FixedFile(file_work.path, before, before.with_text(text))
