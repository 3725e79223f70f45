"""Which finding of `check` explains an exception: by the kind of the error, then by how near it lies.

Nearest is a line of the traceback, then what makes or defines the function that was called there, then the
functions of the traceback, then their files. A finding that does not fit the error explains nothing, wherever it lies.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardlint.config.certainty import Certainty
from shardlint.engine.results import FileReport
from shardlint.rules_api.rule import Finding, Harm
from shardlint.run.raised.recognition import RecognisedError
from shardlint.run.raised.record import Frame

_LINE, _CALLED, _FUNCTION, _FILE = range(4)


@dataclass(frozen=True)
class Explains:
    """A finding that explains an error, and the file it is in."""

    file: FileReport
    finding: Finding

    @property
    def finding_line(self) -> int:
        """Its line."""
        return self.file.source.position_of(self.finding.start)[0]


def choose_explanation(error: RecognisedError, reports: Sequence[FileReport]) -> Explains | None:
    """The finding that explains an error, None where none does."""
    fitting: list[tuple[tuple[int, int, int], int, Explains]] = []
    for file in reports:
        places = _Places(file)
        for finding in file.findings:
            if not _may_explain(error, finding, file):
                continue
            near, depth = places.distance_to(finding, error)
            if near is None or not _is_near_enough(error, finding, near, depth):
                continue
            order = (near, _uncertainty_rank(finding), -depth)
            fitting.append((order, near, Explains(file, finding)))
    if not fitting:
        return None
    fitting.sort(key=lambda one: one[0])
    (_, near, best) = fitting[0]
    alike = [
        one for _, other, one in fitting if other == near and one.finding.rule.code != best.finding.rule.code
    ]
    alike += [one for _, other, one in fitting[1:] if other == near and one.finding_line != best.finding_line]
    # Somewhere in the same file there may be another mistake of the same kind: then nobody knows which it was.
    confirmed = error.kind is not None and best.finding.rule.code in error.kind.confirms
    if near == _FILE and not confirmed and (alike or not error.words or best.finding.certainty is Certainty.POSSIBLE):
        return None
    return best


def _uncertainty_rank(finding: Finding) -> int:
    return [Certainty.PROVEN, Certainty.LIKELY, Certainty.POSSIBLE].index(finding.certainty)


def _may_explain(error: RecognisedError, finding: Finding, file: FileReport) -> bool:
    """Return whether a finding may explain the error by its kind."""
    kind, code = error.kind, finding.rule.code
    if kind is None or code not in kind.codes:
        # It says itself which error it is.
        names = (
            (error.error.type, *error.error.bases[: error.error.bases.index("Exception")])
            if "Exception" in (error.error.bases)
            else (error.error.type,)
        )
        says = any(re.search(rf"\braises (?:an? )?`?{re.escape(name)}\b", finding.message) for name in names)
        return (
            kind is None
            and says
            and finding.harm is Harm.CRASH
            and finding.certainty is not Certainty.POSSIBLE
        )
    if not error.words:
        return True
    text = " ".join((finding.label, finding.message, finding.why, finding.help, _statement_text(finding, file)))
    return all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in error.words)


def _statement_text(finding: Finding, file: FileReport) -> str:
    source = file.source
    return source.text[finding.start : finding.end] + " " + source.line_text_at(finding.start)


def _is_near_enough(error: RecognisedError, finding: Finding, near: int, depth: int) -> bool:
    """Return whether a finding is near enough to the known place of the error."""
    if error.kind is None or finding.rule.code not in error.kind.codes:
        return near == _LINE and depth == len(error.error.user_frames) - 1
    return not error.kind.exact or (near == _LINE and finding.certainty is not Certainty.POSSIBLE)


class _Places:
    """Where in a file its statements and functions lie."""

    def __init__(self, file: FileReport) -> None:
        self.file = file
        self.path = os.path.realpath(file.path)
        self.statements: list[ast.stmt] = []
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        try:
            tree = ast.parse(file.source.text)
        except (SyntaxError, ValueError, RecursionError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt):
                self.statements.append(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.append(node)

    def distance_to(self, finding: Finding, error: RecognisedError) -> tuple[int | None, int]:
        """How near a finding lies to the traceback, and to which of the user's own frames; None: in another file."""
        position = self.file.source.position_of
        first, last = position(finding.start)[0], position(finding.end)[0]
        own = error.error.user_frames
        here = [
            (depth, frame) for depth, frame in enumerate(own) if os.path.realpath(frame.file) == self.path
        ]
        for depth, frame in reversed(here):
            if first <= frame.end and frame.line <= last:
                return _LINE, depth
        statement = self._statement_at(first)
        for depth, frame in reversed(here):
            if statement is not None and _header_lines(statement)[0] <= frame.line <= _header_lines(statement)[1]:
                return _LINE, depth
        for depth, frame in reversed(list(enumerate(own))):
            if self._makes_callee(statement, first, frame):
                return _CALLED, depth
        inside = self._function_at(first)
        for depth, frame in reversed(here):
            if (
                inside is not None
                and _first_line(inside) <= frame.first <= inside.lineno
                and frame.function == inside.name
            ):
                return _FUNCTION, depth
            if inside is None and frame.function == "<module>":
                return _FUNCTION if len(here) == 1 else _FILE, depth
        return (_FILE, here[-1][0]) if here else (None, 0)

    def _statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement that a line is in."""
        around = [one for one in self.statements if _first_line(one) <= line <= (one.end_lineno or one.lineno)]
        return max(around, key=lambda one: (_first_line(one), -(one.end_lineno or 0)), default=None)

    def _function_at(self, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        around = [one for one in self.functions if _first_line(one) <= line <= (one.end_lineno or one.lineno)]
        return max(around, key=_first_line, default=None)

    def _makes_callee(self, statement: ast.stmt | None, line: int, frame: Frame) -> bool:
        """Return whether a statement binds or decorates the callee of a frame, or is in it."""
        call = frame.call
        if call is None or not call.callee:
            return False
        name = call.callee.rpartition(".")[2]
        if call.defined is not None and os.path.realpath(call.defined[0]) == self.path:
            for one in self.functions:
                if _first_line(one) <= call.defined[1] <= one.lineno and _first_line(one) <= line <= (
                    one.end_lineno or 0
                ):
                    return True
        return name in _bound_names(statement) if os.path.realpath(frame.file) == self.path else False


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _header_lines(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement without the statements in it."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return node.lineno, max(node.lineno, body[0].lineno - 1)
    return node.lineno, node.end_lineno or node.lineno


def _bound_names(statement: ast.stmt | None) -> set[str]:
    """The names a statement gives a value, or a function it makes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return set(_target_names(statement.targets))
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        return set(_target_names([statement.target]))
    return set()


def _target_names(targets: Sequence[ast.expr]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr
        elif isinstance(target, ast.Tuple | ast.List):
            yield from _target_names(target.elts)
