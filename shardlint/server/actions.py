"""Code actions for a finding: its fix, a suppression comment, and all safe fixes of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lsprotocol import types as lsp

from shardlint.engine.results import FileReport, Outcome
from shardlint.rewrite.project_fixes import Attempt, FileInProgress
from shardlint.rewrite.recheck import carry_out
from shardlint.rewrite.suppression_comments import with_comments
from shardlint.rules_api.rule import Finding, Safety
from shardlint.server.session import Session, ShownDiagnostics
from shardlint.server.texts import Buffer, Encoding
from shardlint.source.text import Source, Unreadable

FIX_ALL = "source.fixAll.shardlint"
FIX_NOTEBOOK = f"notebook.{FIX_ALL}"
"""What VS Code asks for when a notebook is saved: of its first cell, for all of it."""
KINDS = [lsp.CodeActionKind.QuickFix, FIX_ALL, FIX_NOTEBOOK]
Texts = dict[Path, tuple[Source, str]]
"""Files that an action changes: as they are, and the text they get."""


class ActionUnavailable(Exception):
    """The action no longer fits the text, or cannot be done; the message says why."""


def offered_actions(shown: ShownDiagnostics, start: int, end: int, only: list[str] | None) -> Iterator[lsp.CodeAction]:
    """The actions for some characters, without their edits, which `Actions.changed_texts` makes from their `data`."""
    said: dict[str, object] = {"uri": shown.buffer.uri, "version": shown.buffer.version}
    if _wants_kind(only, lsp.CodeActionKind.QuickFix.value):
        here = [one for one in shown.findings if one.start <= end and start <= one.end]
        for finding in here:
            yield from _actions_for_finding(finding, said)
    kind = (
        FIX_NOTEBOOK if only and shown.buffer.source.in_cells and _wants_kind(only, FIX_NOTEBOOK) else FIX_ALL
    )
    if _wants_kind(only, kind) and any(_is_safe(one) for one in shown.findings):
        yield lsp.CodeAction("Apply all safe fixes of shardlint", kind, data={**said, "do": "all"})


def _actions_for_finding(finding: Finding, said: dict[str, object]) -> Iterator[lsp.CodeAction]:
    code, fix = finding.rule.code, finding.fix
    data = {**said, "code": code, "start": finding.start}
    kind = lsp.CodeActionKind.QuickFix
    if fix is not None:
        safe = fix.safety is Safety.SAFE
        label = "" if safe else f" (unsafe{f': {fix.why}' if fix.why else ''})"
        title = f"{code}: {fix.message}{label}"
        yield lsp.CodeAction(title, kind, is_preferred=safe, data={**data, "do": "fix"})
    if not code.startswith("SL0"):
        yield lsp.CodeAction(f"{code}: suppress on this line", kind, data={**data, "do": "suppress"})


def _wants_kind(only: list[str] | None, kind: str) -> bool:
    return not only or any(kind == one or kind.startswith(f"{one}.") for one in only)


def _is_safe(finding: Finding) -> bool:
    return finding.fix is not None and finding.fix.safety is Safety.SAFE


class Actions:
    """Makes the edits of actions, by the code of `fix` and `check --add-suppressions`. In the worker's thread."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def changed_texts(self, data: dict[str, object]) -> Texts:
        """The files that an action changes. Raises `ActionUnavailable`."""
        buffer = self.session.buffers.get(str(data.get("uri")))
        if buffer is None or buffer.version != data.get("version"):
            raise ActionUnavailable("the text has changed since; ask again")
        if data.get("do") == "all":
            return self._fix_finding(buffer, None)
        shown = self.session.examine_buffer(self._current_buffer(buffer))
        for finding in shown.findings:
            if (finding.rule.code, finding.start) == (data.get("code"), data.get("start")):
                return (
                    self._suppress_finding(buffer, finding)
                    if data["do"] == "suppress"
                    else self._fix_finding(buffer, finding)
                )
        raise ActionUnavailable("the finding is no longer there")

    def _current_buffer(self, buffer: Buffer) -> Buffer:
        self.session.current_state(buffer.path)
        return buffer

    def _suppress_finding(self, buffer: Buffer, finding: Finding) -> Texts:
        report = FileReport(buffer.path, buffer.source, [finding])
        after = with_comments(report, self.session.wishes_for(buffer.path).suppression)
        try:
            buffer.source.with_text(after).encode_file()
        except Unreadable as error:
            raise ActionUnavailable(str(error)) from None
        return {buffer.path: (buffer.source, after)}

    def _fix_finding(self, buffer: Buffer, finding: Finding | None) -> Texts:
        """All safe fixes of a file, or the one of a finding with all that is right only together with it."""
        kept = self.session.current_state(buffer.path)
        group = finding.fix.together if finding is not None and finding.fix is not None else ()
        paths = dict.fromkeys((buffer.path, *map(Path, group)))
        outcomes = [self._outcome_of_file(path) for path in paths]
        unsafe = finding is not None and not _is_safe(finding)
        root = kept.checker.root_for(buffer.path)
        attempt = Attempt(outcomes, kept.options, unsafe, root, kept.places, self.session.overlay_texts())
        attempt.make_checker = kept.checker_with_texts
        if finding is not None:
            attempt.wanted = lambda work, one: _is_it(work, one, finding, buffer.path)
        carry_out(attempt)
        changed = {
            work.path: (work.before, work.after.text) for work in attempt.works.values() if work.is_changed
        }
        for path, (source, _) in changed.items():
            if source.in_cells and path not in kept.overlay:
                raise ActionUnavailable(f"{path.name} would change too; open it first")
        if not changed and finding is not None:
            raise ActionUnavailable("; ".join(_refusal_reasons(attempt)) or "the fix cannot be made here")
        return changed

    def _outcome_of_file(self, path: Path) -> Outcome:
        kept = self.session.kept_state(path)
        outcome = kept.check_open_file(path) if path in kept.overlay else kept.checker.check_file(path)
        if outcome.report is None or path not in kept.overlay:
            return outcome
        return replace(outcome, report=FileReport(path, kept.overlay[path], outcome.report.findings))

    def make_workspace_edit(self, texts: Texts, encoding: Encoding, versioned: bool) -> lsp.WorkspaceEdit:
        """Changed files as an editor takes them."""
        open_ones = {buffer.path: buffer for buffer in self.session.buffers.values()}
        made: list[tuple[str, int | None, list[lsp.TextEdit]]] = []
        for path, (source, after) in texts.items():
            known = open_ones.get(path) or Buffer(path.as_uri(), path, source, None)
            made += known.edits_to(after, encoding)
        if not versioned:
            return lsp.WorkspaceEdit(changes={uri: found for uri, _, found in made})
        return lsp.WorkspaceEdit(
            document_changes=[
                lsp.TextDocumentEdit(lsp.OptionalVersionedTextDocumentIdentifier(uri, version), found)
                for uri, version, found in made
            ]
        )


def _is_it(file_work: FileInProgress, one: Finding, finding: Finding, path: Path) -> bool:
    """Return whether a finding is the given one, or is fixed together with it."""
    if one.rule.code != finding.rule.code or one.fix is None or finding.fix is None:
        return False
    if finding.fix.together and one.fix.together == finding.fix.together:
        return True
    return file_work.path == path and file_work.original_start(one) == finding.start and not file_work.made


def _refusal_reasons(attempt: Attempt) -> Iterator[str]:
    yield from dict.fromkeys((*attempt.refused.single.values(), *attempt.refused.groups.values()))
