"""Identity of a finding without line numbers, which stays the same while the code around it moves."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from shardlint.source.patterns import compile_lazily

if TYPE_CHECKING:
    from shardlint.engine.results import FileReport
    from shardlint.rules_api.rule import Finding
    from shardlint.source.text import Source

_BLANKS = compile_lazily(r"\s+")
# What formatters change: blanks, quotes, a comma before the closing bracket, brackets around a whole expression.
_LAYOUT = compile_lazily(r"[\s\\]+|,(?=\s*[)\]}])|#[^\n]*")
_SHOWN = 120


class Content(NamedTuple):
    """Identity of a finding: its scope and its statement."""

    scope: str
    """The functions and classes around it, with dots."""
    text: str
    """The statement, as people see it."""
    digest: str
    """Of the statement, without what formatters change."""


def finding_contents(file: FileReport) -> list[Content]:
    """Of each finding of a file, in their order."""
    places = _Statements(file.source) if file.findings else None
    return [places.finding_content(finding) for finding in file.findings] if places is not None else []


def finding_fingerprints(file: FileReport, path: str) -> Iterator[str]:
    """A name for each finding, that no other finding of a report has and that lasts while its statement does."""
    seen: Counter[str] = Counter()
    for finding, content in zip(file.findings, finding_contents(file), strict=True):
        said = "\0".join((path, finding.rule.code, content.scope, content.digest))
        seen[said] += 1
        yield _digest_text(f"{said}\0{seen[said]}")


class _Statements:
    """The statements of a file, by the characters they take."""

    def __init__(self, source: Source) -> None:
        self.source = source
        try:
            self.tree: ast.Module | None = ast.parse(source.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.tree = None

    def finding_content(self, finding: Finding) -> Content:
        found = list(self._statements_around(finding.start)) if self.tree is not None else []
        names = [
            node.name
            for node in found
            if isinstance(node, _SCOPES) and self._begin_offset(node) < finding.start
        ]
        if found:
            start, end = self._statement_span(found[-1])
            start, end = min(start, finding.start), max(end, min(finding.end, end))
        else:
            line = self.source.line_text_at(finding.start)
            start = self.source.text.rfind("\n", 0, finding.start) + 1
            end = start + len(line)
        text = self.source.text[start:end]
        shown = _BLANKS.sub(" ", text).strip()
        digest = _digest_text(_LAYOUT.sub("", text).replace("'", '"').replace("(", "").replace(")", ""))
        return Content(".".join(names), shown[:_SHOWN], digest)

    def _statements_around(self, offset: int) -> Iterator[ast.stmt]:
        """The statements around a character, the outermost first."""
        inside: Iterable[ast.AST] = [self.tree] if self.tree is not None else []
        while True:
            found = next(
                (node for node in _child_statements(inside) if self._contains_offset(node, offset)), None
            )
            if found is None:
                return
            yield found
            inside = [found]

    def _contains_offset(self, node: ast.stmt, offset: int) -> bool:
        end = self.source.offset_of(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self._begin_offset(node) <= offset < max(end, self._begin_offset(node) + 1)

    def _begin_offset(self, node: ast.stmt) -> int:
        first = min((one.lineno for one in getattr(node, "decorator_list", ())), default=node.lineno)
        if first < node.lineno:
            return self.source.line_starts[first - 1]
        return self.source.offset_of(node.lineno, node.col_offset)

    def _statement_span(self, node: ast.stmt) -> tuple[int, int]:
        """Where a statement is; of one that holds others, its head."""
        inner = next(_child_statements([node]), None)
        end = self.source.offset_of(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self._begin_offset(node), end if inner is None else max(
            self._begin_offset(inner), self._begin_offset(node)
        )


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BODIES = ("body", "handlers", "orelse", "finalbody", "cases")


def _child_statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """The statements right inside of nodes, in their order."""
    for node in nodes:
        for name in _BODIES:
            inside = getattr(node, name, ())
            for one in inside if isinstance(inside, list) else ():
                if isinstance(one, ast.stmt):
                    yield one
                elif isinstance(one, ast.ExceptHandler | ast.match_case):
                    yield from _child_statements([one])


def _digest_text(text: str) -> str:
    return blake2b(re.sub(r"\s", "", text).encode("utf-8", "replace"), digest_size=8).hexdigest()
