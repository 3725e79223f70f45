"""From what a program put down of its exceptions to what is shown of each under its traceback."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shardlint.output.printable import make_printable
from shardlint.run.raised.explain import explain_error
from shardlint.run.raised.explanation import Explanation
from shardlint.run.raised.finding_choice import Explains, choose_explanation
from shardlint.run.raised.recognition import RecognisedError, recognise_error
from shardlint.run.raised.record import Error, Frame, Raised, read_exceptions
from shardlint.verify.inside.hlo.lines import is_own

_FILES = 20
_SHOWN = 8


@dataclass(frozen=True)
class ExplainedException:
    """Explanation of an exception: the finding behind it, a message about its arrays, or both."""

    raised: Raised
    found: RecognisedError
    finding: Explains | None
    explanation: Explanation | None
    tests: tuple[str, ...] = ()
    """The tests it failed."""

    @property
    def user_frame(self) -> Frame:
        """The user's line it came from."""
        at = self.found.error.user_frame
        assert at is not None
        return at

    def encode_explanation(self) -> dict[str, Any]:
        """The same for a program."""
        finding, explanation = self.finding, self.explanation
        return {
            "type": self.found.error.type,
            "kind": self.found.kind.name if self.found.kind else "",
            "file": self.user_frame.file,
            "line": self.user_frame.line,
            "function": self.user_frame.function,
            "thread": bool(self.raised.thread),
            "tests": list(self.tests),
            "code": finding.finding.rule.code if finding else "",
            "code_file": os.path.realpath(finding.file.path) if finding else "",
            "code_line": finding.finding_line if finding else 0,
            "message": explanation.message if explanation else finding.finding.message if finding else "",
            "arrays": list(explanation.arrays) if explanation else [],
            "help": (explanation.help if explanation else "") or (finding.finding.advice if finding else ""),
            "text": [*self.explanation_lines()],
        }

    def explanation_lines(self) -> Iterator[str]:
        """Yield the text under the traceback: the line, the finding with its fix, and the arrays."""
        from shardlint.engine.results import FileReport
        from shardlint.output.text import render_frames

        where = f"{_shown_path(self.user_frame.file)}:{self.user_frame.line} in {self.user_frame.function}"
        more = f" and {len(self.tests) - 1} more" if len(self.tests) > 1 else ""
        test = f"{self.tests[0]}{more}: " if self.tests else ""
        yield make_printable(f"{test}{self.found.error.type} at {where}, explained:")
        if self.finding is not None:
            file = FileReport(self.finding.file.path, self.finding.file.source, [self.finding.finding])
            for frame in render_frames(file):
                yield from (f"  {line}".rstrip() for line in frame.splitlines())
        if self.explanation is not None:
            yield make_printable(f"  {self.explanation.message}")
            yield from (make_printable(f"    {text}") for text in self.explanation.arrays)
            if self.explanation.help:
                yield make_printable(f"  instead: {self.explanation.help}")


def explain_recorded(folder: Path, ended_well: bool) -> list[ExplainedException]:
    """Return the explanations of the exceptions that processes recorded in a folder.

    Of a program that `ended_well` only those that ended a thread: what else it printed was its own business.
    """
    found = [one for one in read_exceptions(folder) if one.thread or not ended_well]
    if any(
        one.test for one in found
    ):  # pytest leaves the last failure behind too, of an expected one as well
        found = [one for one in found if one.thread or one.test]
    return explain_exceptions(found)


def explain_exceptions(raised: Sequence[Raised]) -> list[ExplainedException]:
    """The same of exceptions at hand; each once, and none of which nothing is known."""
    groups: dict[object, list[Raised]] = {}
    for one in raised:
        at = one.errors[0].user_frame
        groups.setdefault((one.errors[0].error_text, at and (at.file, at.line)), []).append(one)
    found = []
    for alike in groups.values():
        known = _explain_exception(alike[0])
        if known is not None:
            found.append(replace(known, tests=tuple(dict.fromkeys(one.test for one in alike if one.test))))
    return found


def _explain_exception(raised: Raised) -> ExplainedException | None:
    """The first error of the chain that is known counts."""
    errors = [error for error in raised.errors if error.user_frames]
    if not errors:
        return None
    reports = _check_files(errors, raised.releases)
    for error in errors:
        found = recognise_error(error, raised.releases)
        finding = choose_explanation(found, reports)
        explanation = explain_error(found, finding is not None)
        if found.kind is not None and found.kind.live and explanation is not None and explanation.live:
            finding = None
        if finding is not None or explanation is not None:
            return ExplainedException(raised, found, finding, explanation)
    return None


def _check_files(errors: Sequence[Error], releases: Mapping[str, str]) -> list[Any]:
    """Return the findings of `check` in the files of the tracebacks, for the releases the program ran on, of any
    certainty.
    """
    from shardlint.config.certainty import Certainty
    from shardlint.config.targets import BadTarget, parse_targets
    from shardlint.engine.results import Options
    from shardlint.engine.run import check_paths

    targets: dict[str, str] = {}
    for package, release in releases.items():
        with contextlib.suppress(BadTarget):
            targets |= parse_targets([f"{package}={release}"])
    paths = [Path(_shown_path(file)) for file in _user_files(errors)]
    if not paths:
        return []
    try:
        return check_paths(paths, Options(certainty=Certainty.POSSIBLE, targets=targets)).reports
    except Exception:  # settings that cannot be read: `shardlint check` says so itself
        return []


def _user_files(errors: Sequence[Error]) -> list[str]:
    """The user's files, innermost first."""
    found: dict[str, None] = {}
    for error in errors:
        for frame in reversed(error.user_frames):
            found.setdefault(os.path.realpath(frame.file))
            if frame.call is not None and frame.call.defined is not None and is_own(frame.call.defined[0]):
                found.setdefault(os.path.realpath(frame.call.defined[0]))
    return [file for file in found if file.endswith(".py") and Path(file).is_file()][:_FILES]


def _shown_path(file: str) -> str:
    try:
        inside = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return file if inside.startswith("..") else inside


def explanation_lines(told_of: Sequence[ExplainedException]) -> Iterator[str]:
    """Yield the explanations of the first exceptions, and the number of the others."""
    for one in told_of[:_SHOWN]:
        yield from one.explanation_lines()
    if len(told_of) > _SHOWN:
        yield f"... and {len(told_of) - _SHOWN} more exceptions explained in --report FILE.json"
