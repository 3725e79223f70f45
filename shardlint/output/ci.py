"""The formats of CI systems and reviewers: GitHub's annotations, GitLab's code quality, reviewdog, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shardlint import __version__
from shardlint.output.printable import make_printable, printable_lines
from shardlint.output.rows import Row, finding_rows, left_out

if TYPE_CHECKING:
    from shardlint.engine.results import Report

_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}
_GITLAB = {"crash": "critical", "silent": "major", "cost": "minor", "removed": "minor"}
_REVIEWDOG = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def github_report(report: Report) -> str:
    """Workflow commands, which GitHub shows as annotations at the lines of a pull request."""
    lines = []
    for row in finding_rows(report):
        place = {
            "title": row.rule_title,
            "file": row.path,
            "line": row.line,
            "col": row.column,
            "endLine": row.end_line,
            # Of several lines GitHub takes no columns.
            "endColumn": row.end_column if row.end_line == row.line else None,
        }
        if place["endColumn"] is None:
            del place["col"]
        said = ",".join(
            f"{key}={_escape_property(str(value))}" for key, value in place.items() if value is not None
        )
        lines.append(f"::{_GITHUB[row.severity_level]} {said}::{_escape_data(row.full_text)}")
    for path, reason in left_out(report):
        lines.append(f"::warning title=shardlint,file={_escape_property(path)}::{_escape_data(reason)}")
    return "\n".join(lines)


def _escape_data(text: str) -> str:
    return printable_lines(text).replace("%", "%25").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(make_printable(text)).replace(":", "%3A").replace(",", "%2C")


def gitlab_report(report: Report) -> str:
    """GitLab's code quality report."""
    return json.dumps([_gitlab_issue(row) for row in finding_rows(report)], indent=2)


def _join_lines(text: str) -> str:
    """Lines that follow each other as sentences do."""
    *before, last = text.split("\n")
    return " ".join([*(line if line.endswith((".", ":", "?", "!")) else f"{line}." for line in before), last])


def _gitlab_issue(row: Row) -> dict[str, Any]:
    severity = "info" if row.severity_level == "note" else _GITLAB[row.finding.harm.value]
    return {
        "description": _join_lines(f"{row.rule_title}: {row.full_text}"),
        "check_name": row.rule_code,
        "fingerprint": row.fingerprint,
        "severity": severity,
        "location": {"path": row.path, "lines": {"begin": row.line, "end": row.end_line}},
    }


def rdjson_report(report: Report) -> str:
    """The reviewdog Diagnostic Format. Its columns count bytes of UTF-8."""
    return json.dumps(
        {
            "source": {"name": "shardlint"},
            "diagnostics": [_rdjson_diagnostic(row) for row in finding_rows(report)],
        },
        indent=2,
    )


def _rdjson_diagnostic(row: Row) -> dict[str, Any]:
    finding, fix = row.finding, row.finding.fix
    code = {"value": row.rule_code, "url": row.rule_page_address} if row.rule_page_address else {"value": row.rule_code}
    said: dict[str, Any] = {
        "message": f"{finding.rule.name}: {row.full_text}",
        "location": {"path": row.path, "range": _rdjson_range(row, finding.start, finding.end)},
        "severity": _REVIEWDOG[row.severity_level],
        "code": code,
    }
    # Each suggestion is taken or left alone, so a fix of several edits is none.
    if fix is not None and len(fix.edits) == 1 and not row.file.source.in_cells:
        (edit,) = fix.edits
        said["suggestions"] = [{"range": _rdjson_range(row, edit.start, edit.end), "text": edit.text}]
    return said


def _rdjson_range(row: Row, start: int, end: int) -> dict[str, Any]:
    source = row.file.source
    if source.in_cells:
        return {"start": {"line": 1, "column": 1}}

    def line_and_column(offset: int) -> dict[str, int]:
        line, column = source.position_of(offset)
        return {"line": line, "column": len(source.line_text(line)[: column - 1].encode("utf-8", "replace")) + 1}

    return {"start": line_and_column(start), "end": line_and_column(end)}


def jsonl_report(report: Report) -> Iterator[str]:
    """The JSON report, an object a line: what it is about, each finding, each file that was not checked."""
    from shardlint.output.json_ import report_document

    whole = report_document(report)
    about = {key: whole[key] for key in ("schema", "files", "targets")}
    yield json.dumps({"kind": "run", "version": __version__, **about})
    for kind, many in (("finding", whole["findings"]), ("skipped", whole["skipped"])):
        yield from (json.dumps({"kind": kind, **one}) for one in many)
