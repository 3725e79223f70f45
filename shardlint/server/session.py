"""Documents open in editors, and their findings. All but `open`, `close` and `configure` belongs to the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from shardlint.config.certainty import Certainty
from shardlint.config.settings import BadSettings
from shardlint.config.targets import BadTarget
from shardlint.engine.adoption.baseline import BadBaseline
from shardlint.engine.adoption.known_findings import compare_with_baseline, projects_with_baselines
from shardlint.engine.results import FileReport, Options, Outcome, Report
from shardlint.rules_api.registry import UnknownRule
from shardlint.rules_api.rule import Finding
from shardlint.server.editor_settings import DEFAULT
from shardlint.server.kept_programs import KeptPrograms, Overlay
from shardlint.server.texts import Buffer, move_span
from shardlint.server.worker import Stopped
from shardlint.source.find import FileSelection, SelectedFile
from shardlint.source.lazy import dataclass
from shardlint.source.packs import BrokenPack
from shardlint.source.text import Source
from shardlint.syntax import NotParsed, parse_ahead

_REFUSED = (BadBaseline, BadSettings, BadTarget, BrokenPack, UnknownRule)
# A check that takes less, in seconds of a processor, tells by itself soon enough that a text is broken.
_SOON = 0.15
STALE = "As it was before Python could no longer parse the file."


@dataclass(frozen=True)
class ShownDiagnostics:
    """Diagnostics of a buffer. `broken` is the reason why it cannot be checked, and `at` the character where it
    starts.
    """

    buffer: Buffer
    findings: tuple[Finding, ...] = ()
    broken: str = ""
    at: int = 0
    refused: bool = False
    """Whether it is not the text that is at fault: the settings are."""
    carried: tuple[Finding, ...] = ()
    """What was found in the last text that could be parsed, where it is now."""


@dataclass(frozen=True)
class Wishes:
    """Settings of an editor for a folder."""

    options: Options = field(default_factory=Options)
    suppression: str = "TODO: say why"
    layout_hints: bool = True
    """Whether layouts are shown behind the lines that make arrays."""

    @staticmethod
    def parse_wishes(said: Any) -> tuple[Wishes, list[str]]:
        """The wishes, and what is wrong with them."""
        wrong: list[str] = []
        said = said if isinstance(said, Mapping) else {}
        certainty = said.get("certainty") or None
        if certainty is not None and certainty not in list(Certainty):
            wrong.append(f"certainty is {certainty!r}; write one of {', '.join(Certainty)}")
            certainty = None
        options = Options(
            select=_read_codes(said, "select", wrong),
            ignore=_read_codes(said, "ignore", wrong),
            certainty=Certainty(certainty) if certainty is not None else None,
        )
        reason = said.get("suppressionReason")
        known = isinstance(reason, str) and reason.strip() and "\n" not in reason
        hints = said.get("layoutHints") is not False
        return Wishes(options, reason.strip() if known else Wishes.suppression, hints), wrong


def _read_codes(said: Mapping[str, Any], key: str, wrong: list[str]) -> tuple[str, ...]:
    value = said.get(key) or []
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    wrong.append(f'{key} is {value!r}; write a list of strings such as ["SL2"]')
    return ()


class Session:
    """One editor's session. `show` is given what is to be shown, `log` what went wrong."""

    def __init__(self, show: Callable[[ShownDiagnostics], None], log: Callable[[str], None]) -> None:
        self._show, self._log = show, log
        self.buffers: dict[str, Buffer] = {}
        self.shown: dict[str, ShownDiagnostics] = {}
        self.wishes: dict[Path, Wishes] = {}
        """By workspace folder; those for all others under the root folder."""
        self.look = True
        """Whether the disk may be another."""
        self.checking = False
        self.pause: Callable[[], None] = lambda: None
        self._kept: dict[tuple[Any, ...], KeptPrograms] = {}
        self._good: dict[str, tuple[str, tuple[Finding, ...]]] = {}
        self._said: set[str] = set()
        self._last = ""

    def buffer_of(self, uri: str) -> Buffer | None:
        """Return the buffer of a document, or of the notebook it belongs to."""
        if uri in self.buffers:
            return self.buffers[uri]
        return next((one for one in self.buffers.values() if uri in dict(one.shown_documents)), None)

    def put_buffer(self, buffer: Buffer) -> None:
        """A text was opened or changed."""
        self.buffers[buffer.uri] = buffer
        self._last = buffer.uri

    def drop_buffer(self, uri: str) -> None:
        """A text was closed."""
        self.buffers.pop(uri, None)
        self.shown.pop(uri, None)
        self._good.pop(uri, None)

    def forget_all(self) -> None:
        """Let go of all that is known: settings changed."""
        for kept in self._kept.values():
            kept.forget_all()

    def wishes_for(self, path: Path) -> Wishes:
        """Return the editor's settings for a file: those of the nearest folder with some."""
        for folder in path.parents:
            if folder in self.wishes:
                return self.wishes[folder]
        return self.wishes.get(DEFAULT, Wishes())

    def kept_state(self, path: Path) -> KeptPrograms:
        """Return the cached state of the projects under the options for a file."""
        options = self.wishes_for(path).options
        key = options.select, options.ignore, options.certainty
        if key not in self._kept:
            self._kept[key] = KeptPrograms(options)
        self._kept[key].checker.pause = self.pause
        return self._kept[key]

    def overlay_texts(self) -> Overlay:
        """The texts in editors, by path."""
        return {buffer.path: buffer.source for buffer in list(self.buffers.values())}

    def current_state(self, path: Path) -> KeptPrograms:
        """The same, brought up to date. Raises `Stopped` in the middle of a check, which looks at something else."""
        kept = self.kept_state(path)
        if self.checking:
            raise Stopped
        kept.bring_up_to_date(self.overlay_texts(), look=False)
        kept.checker.pause = self.pause
        return kept

    def check_open_documents(self) -> None:
        """Check what is open and not known, the text that was changed last first."""
        self.checking = True
        try:
            self._check_buffers()
        finally:
            self.checking = False

    def check_now(self) -> None:
        """Check for somebody who waits for it. Never in the middle of a check."""
        if self.checking:
            raise Stopped
        self.check_open_documents()

    def _check_buffers(self) -> None:
        buffers = sorted(self.buffers.values(), key=lambda one: one.uri != self._last)
        self._show_syntax_errors(buffers[:1])
        overlay, look = self.overlay_texts(), self.look
        self.look = False
        for kept in {
            id(kept): kept for kept in (self._kept_if_usable(one) for one in buffers) if kept
        }.values():
            kept.bring_up_to_date(overlay, look)
            kept.checker.pause = self.pause
        for buffer in buffers:
            self.pause()
            shown = self.examine_buffer(buffer)
            if self.shown.get(buffer.uri) != shown and self.buffers.get(buffer.uri) is buffer:
                self.shown[buffer.uri] = shown
                self._show(shown)

    def is_disk_state_old(self) -> bool:
        """Return whether the disk should be looked at again."""
        used = map(self._kept_if_usable, list(self.buffers.values()))
        return any(kept.is_disk_state_old for kept in used if kept is not None)

    def examine_buffer(self, buffer: Buffer) -> ShownDiagnostics:
        """Return the diagnostics of a buffer."""
        try:
            kept = self.kept_state(buffer.path)
            if kept.is_excluded(buffer.path):
                return ShownDiagnostics(buffer)
            outcome = kept.check_open_file(buffer.path)
            findings = tuple(_findings_not_in_baseline(buffer, outcome, kept))
        except _REFUSED as error:
            self._log_once(str(error))
            return ShownDiagnostics(buffer, broken=str(error), refused=True)
        for fault in outcome.faults:
            self._log_once(f"{buffer.path}: {fault.reason}")
        if outcome.failed and outcome.reason:
            self._log_once(f"{buffer.path}: {outcome.reason}")
        if outcome.reason is not None:
            at = outcome.report.findings[0].start if outcome.report is not None else 0
            return ShownDiagnostics(buffer, broken=outcome.reason, at=at, carried=self._carry_findings(buffer))
        self._good[buffer.uri] = buffer.source.text, findings
        return ShownDiagnostics(buffer, findings)

    def _kept_if_usable(self, buffer: Buffer) -> KeptPrograms | None:
        try:
            return self.kept_state(buffer.path)
        except _REFUSED:
            return None

    def _show_syntax_errors(self, buffers: list[Buffer]) -> None:
        """Show at once that a text was broken, or is whole again, where a check may take a while."""
        for buffer in buffers:
            kept = self._kept_if_usable(buffer)
            if kept is not None and kept.took.get(buffer.path, _SOON) < _SOON:
                continue
            known = self.shown.get(buffer.uri)
            try:
                parse_ahead(buffer.source.text)
            except NotParsed as error:
                starts = buffer.source.line_starts
                at = starts[min(error.line, len(starts)) - 1] + error.column - 1
                told = ShownDiagnostics(
                    buffer,
                    (),
                    str(error),
                    min(at, len(buffer.source.text)),
                    False,
                    self._carry_findings(buffer),
                )
            else:
                if known is None or not known.broken or known.refused:
                    continue
                told = ShownDiagnostics(buffer, carried=self._carry_findings(buffer))
            if told != known:
                self.shown[buffer.uri] = told
                self._show(told)

    def _carry_findings(self, buffer: Buffer) -> tuple[Finding, ...]:
        text, findings = self._good.get(buffer.uri, ("", ()))
        kept = tuple(_move_findings(text, buffer.source.text, findings))
        self._good[buffer.uri] = buffer.source.text, kept
        return kept

    def _log_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._log(message)


def _move_findings(before: str, after: str, findings: tuple[Finding, ...]) -> Iterator[Finding]:
    from dataclasses import replace

    for finding in findings:
        place = move_span(before, after, finding.start, finding.end)
        if place is not None:
            yield replace(finding, start=place[0], end=place[1], fix=None)


def _findings_not_in_baseline(buffer: Buffer, outcome: Outcome, kept_programs: KeptPrograms) -> list[Finding]:
    """The findings that are not in the project's baseline."""
    if outcome.report is None:
        return []
    source: Source = buffer.source
    report = Report(reports=[FileReport(buffer.path, source, outcome.report.findings)])
    found = FileSelection(met=[SelectedFile(str(buffer.path), str(buffer.path))])
    for project in projects_with_baselines(report, found, kept_programs.options, kept_programs.places).values():
        if project.file.is_file():
            matched = compare_with_baseline(project, report, False)
            return [finding for _, findings in matched.new for finding in findings]
    return outcome.report.findings
