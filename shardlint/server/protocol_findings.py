"""Findings, and what is known at a place, in the words of the protocol."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from lsprotocol import types as lsp

from shardlint.config.targets import Targets
from shardlint.engine.explain import explain_line, format_axes
from shardlint.engine.explain_file import layouts_by_line
from shardlint.model import Program
from shardlint.output.printable import as_sentence
from shardlint.output.related_places import related_places
from shardlint.rules_api.registry import page_address, rule_entries
from shardlint.rules_api.rule import Finding
from shardlint.server.session import STALE, Session, ShownDiagnostics
from shardlint.server.texts import Buffer, Encoding
from shardlint.syntax import FileFacts, NotParsed, Scope

Answer = TypeVar("Answer")
_SOURCE = "shardlint"


Marks = dict[str, list[lsp.Diagnostic]]
"""What an editor marks, by the document."""


def editor_diagnostics(shown: ShownDiagnostics, encoding: Encoding) -> Marks:
    """Return the diagnostics for an editor."""
    source = shown.buffer.source
    found: Marks = {}
    for finding in shown.findings:
        _make_diagnostic(found, finding, shown, encoding)
    if shown.broken:
        end = min(shown.at + 1, len(source.text))
        reason = source.translate_message(shown.broken[0].upper() + shown.broken[1:])
        code = "settings" if shown.refused else "SL001"
        uri, where = shown.buffer.locate_span(shown.at, end, encoding)
        one = lsp.Diagnostic(
            where,
            f"{reason}. Nothing in the file was checked.",
            severity=lsp.DiagnosticSeverity.Error,
            code=code,
            code_description=_code_description(code),
            source=_SOURCE,
        )
        found.setdefault(uri, []).append(one)
    for finding in shown.carried:
        one = _make_diagnostic(found, finding, shown, encoding)
        one.message = f"{one.message}\n{STALE}" if shown.broken else one.message
        one.related_information = None  # the lines it names are those of an earlier text
    return found


def _make_diagnostic(marks: Marks, finding: Finding, shown: ShownDiagnostics, encoding: Encoding) -> lsp.Diagnostic:
    uri, where = shown.buffer.locate_span(finding.start, finding.end, encoding)
    one = lsp.Diagnostic(
        where,
        _diagnostic_message(finding),
        severity=_diagnostic_severity(finding),
        code=finding.rule.code,
        code_description=_code_description(finding.rule.code),
        source=_SOURCE,
        tags=[lsp.DiagnosticTag.Deprecated] if finding.harm.value == "removed" else None,
        related_information=list(_related_lines(finding, shown.buffer, encoding)) or None,
    )
    marks.setdefault(uri, []).append(one)
    return one


def _related_lines(
    finding: Finding, buffer: Buffer, encoding: Encoding
) -> Iterator[lsp.DiagnosticRelatedInformation]:
    """The lines that a finding names, in the document or in files of the project."""
    for place in related_places(finding, buffer.path):
        start = lsp.Position(place.line - 1, 0)
        uri, where = place.path.as_uri(), lsp.Range(start, start)
        if place.path == buffer.path:
            if place.line > len(buffer.source.line_starts):
                continue
            first = buffer.source.line_starts[place.line - 1]
            text = buffer.source.line_text(place.line)
            indent = len(text) - len(text.lstrip())
            uri, where = buffer.locate_span(first + indent, first + len(text.rstrip()), encoding)
        yield lsp.DiagnosticRelatedInformation(lsp.Location(uri, where), place.name)


def _diagnostic_message(finding: Finding) -> str:
    why = f"Why: {finding.why}" if finding.why else ""
    advice = finding.advice
    return "\n".join(filter(None, (finding.message, why, as_sentence(advice) if advice else "")))


def _diagnostic_severity(finding: Finding) -> lsp.DiagnosticSeverity:
    if finding.certainty.value == "possible":
        return lsp.DiagnosticSeverity.Information
    mild = finding.harm.value in ("cost", "removed")
    return lsp.DiagnosticSeverity.Warning if mild else lsp.DiagnosticSeverity.Error


def _code_description(code: str) -> lsp.CodeDescription | None:
    address = page_address(code)
    return lsp.CodeDescription(address) if address else None


def hover_text(session: Session, buffer: Buffer, at: int) -> lsp.Hover | None:
    """Return the hover text: the explanation of a line and of its expressions at a character, and the rules of its
    findings.
    """
    parts = list(_rule_texts(session.shown.get(buffer.uri), at))
    facts, program, targets = _facts_of_buffer(session, buffer)
    if facts is not None:
        line, column = buffer.source.position_of(at)
        before = len(buffer.source.text[at - column + 1 : at].encode("utf-8", "replace"))
        lines = _answer_untracked(program, lambda: list(explain_line(program, facts, targets, line, before)))
        if len(lines) > 1:
            text = "\n".join(buffer.source.translate_message(one.removeprefix("  ")) for one in lines)
            parts.append(f"```text\n{text}\n```")
    if not parts:
        return None
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n---\n\n".join(parts)))


def _rule_texts(shown: ShownDiagnostics | None, at: int) -> Iterator[str]:
    codes = {one.rule.code for one in (shown.findings if shown else ()) if one.start <= at <= one.end}
    for code in sorted(codes & rule_entries().keys()):
        kind = rule_entries()[code].load_rule()
        summary = (kind.__doc__ or kind.name).strip().splitlines()[0]
        address = page_address(code)
        name = f"[{code} {kind.name}]({address})" if address else f"`{code} {kind.name}`"
        yield f"{name}: {summary}"


def code_lenses(session: Session, buffer: Buffer, uri: str, encoding: Encoding) -> list[lsp.CodeLens]:
    """Over each function of a document that is traced itself: by what, and with which mesh in context."""
    facts, program, _ = _facts_of_buffer(session, buffer)
    if facts is None:
        return []
    found = []
    for scope in _inner_functions(facts.module):
        start, _ = facts.character_span(scope.node)
        document, where = buffer.locate_span(start, start, encoding)
        title = (
            _answer_untracked(program, partial(_region_title, program, facts, scope))
            if document == uri
            else ""
        )
        if title:
            title = buffer.source.translate_message(title)
            found.append(lsp.CodeLens(where, lsp.Command(title, "")))
    return found


def inlay_hints(session: Session, buffer: Buffer, uri: str, encoding: Encoding) -> list[lsp.InlayHint]:
    """The layouts of arrays, behind the lines of a document that bind or return them."""
    facts, program, targets = _facts_of_buffer(session, buffer)
    if facts is None:
        return []
    found = []
    for number, layouts in sorted(
        _answer_untracked(program, partial(layouts_by_line, program, facts, targets)).items()
    ):
        end = buffer.source.line_starts[number - 1] + len(buffer.source.line_text(number).rstrip())
        document, where = buffer.locate_span(end, end, encoding)
        if document == uri:
            found.append(lsp.InlayHint(where.end, "; ".join(layouts), padding_left=True))
    return found


def _inner_functions(scope: Scope) -> Iterator[Scope]:
    for inner in scope.definitions:
        if isinstance(inner.node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner
        yield from _inner_functions(inner)


def _region_title(program: Program, facts: FileFacts, scope: Scope) -> str:
    region = program.tracing.region_of_function(facts, scope)
    if region.traced not in ("always", "sometimes") or len(region.reasons_inside_out) != 1:
        return ""
    sometimes = "" if region.traced == "always" else " on some ways"
    step = region.reasons_inside_out[0]
    if not step.text.startswith("traced by"):
        return ""
    context = program.mesh_contexts(facts, scope.body_statements[0])
    meshes = {format_axes(one.mesh, " ") for one in context.contexts if one.mesh is not None}
    sure = context.complete and not context.bare and len(meshes) == 1
    mesh = f", mesh {meshes.pop()}" if sure and "" not in meshes else ""
    return f"{step.text}{sometimes}{mesh}"


def _facts_of_buffer(session: Session, buffer: Buffer) -> tuple[FileFacts | None, Program, Targets]:
    """The facts of a buffer, None if it does not parse, the program that it is part of, and the releases there."""
    kept = session.kept_state(buffer.path)
    if kept.overlay.get(buffer.path) is not buffer.source:
        kept = session.current_state(buffer.path)
    program, targets = kept.checker.program_and_targets(buffer.path)
    try:
        return program.project.parse_checked(buffer.source, buffer.path), program, targets
    except NotParsed:
        return None, program, targets


def _answer_untracked(program: Program, answer: Callable[[], Answer]) -> Answer:
    """An answer in the middle of a check, which does not rest on it."""
    before = program.needs.begin_answer()
    try:
        return answer()
    finally:
        program.needs.now = before
