"""The report programs read: one JSON object, schema 1."""

from __future__ import annotations

import json
from typing import Any

from shardlint import __version__
from shardlint.check import FileReport, Report
from shardlint.rule import Edit, Finding

SCHEMA = 1


def document(report: Report) -> dict[str, Any]:
    """The report as plain data. Lines and columns count from 1, columns in characters."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "targets": report.targets.shown() if report.targets is not None else {},
        "findings": [_finding(file, finding) for file in report.reports for finding in file.findings],
        "skipped": [{"path": path.as_posix(), "reason": reason} for path, reason in report.skipped]
        + [{"path": path.as_posix(), "reason": "no such file or directory"} for path in report.missing],
        "files": report.files,
    }


def dumps(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(document(report), indent=2)


def _finding(file: FileReport, finding: Finding) -> dict[str, Any]:
    message = f"{finding.label}: {finding.message}" if finding.label else finding.message
    fix = finding.fix
    return {
        "code": finding.rule.code,
        "name": finding.rule.name,
        "harm": finding.harm.value,
        "certainty": finding.certainty.value,
        "message": f"{message} {finding.help}".strip() if fix is None else message,
        "path": file.path.as_posix(),
        **_range(file, finding.start, finding.end),
        "cell": None,
        "fix": None
        if fix is None
        else {
            "safety": fix.safety.value,
            "message": fix.message,
            "edits": [_edit(file, edit) for edit in fix.edits],
        },
    }


def _edit(file: FileReport, edit: Edit) -> dict[str, Any]:
    return {**_range(file, edit.start, edit.end), "text": edit.text}


def _range(file: FileReport, start: int, end: int) -> dict[str, int]:
    line, column = file.source.position(start)
    end_line, end_column = file.source.position(end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}
