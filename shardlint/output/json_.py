"""The report programs read: one JSON object, schema 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shardlint import __version__
from shardlint.config.folders import shown_folder
from shardlint.config.versions import format_release
from shardlint.engine.results import FileReport, Report
from shardlint.rules_api.rule import Edit, Finding

SCHEMA = 2


def report_document(report: Report) -> dict[str, Any]:
    """The report as plain data. Lines and columns count from 1, columns in characters."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "targets": {
            shown_folder(root): {
                package: {
                    "release": format_release(target.release),
                    "source": target.source,
                    "assumed": target.is_assumed,
                }
                for package, target in targets.found.items()
            }
            for root, targets in report.targets.items()
        },
        "findings": [_finding_row(file, finding) for file in report.reports for finding in file.findings],
        "skipped": [
            *(_skipped_row(path, reason) for path, reason in report.skipped),
            *(_skipped_row(path, "no such file or directory") for path in report.missing),
            *(_skipped_row(path, fault.reason, fault.code) for path, fault in report.faults),
        ],
        "files": report.checked_count,
        **({"known": report.known} if report.baselines else {}),
    }


def dump_report(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(report_document(report), indent=2)


def _skipped_row(path: Path, reason: str, rule: str | None = None) -> dict[str, Any]:
    """A file that was not checked, or not by one rule."""
    return {"path": path.as_posix(), "rule": rule, "reason": reason}


def _finding_row(file: FileReport, finding: Finding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "code": finding.rule.code,
        "name": finding.rule.name,
        "harm": finding.harm.value,
        "certainty": finding.certainty.value,
        "form": finding.form,
        "why": finding.why,
        "message": f"{finding.message} {finding.help}".strip() if fix is None else finding.message,
        "path": file.path.as_posix(),
        **_position_range(file, finding.start, finding.end),
        "cell": file.source.locate_offset(finding.start)[0],
        "fix": None
        if fix is None
        else {
            "safety": fix.safety.value,
            "message": fix.message,
            "edits": [_edit_row(file, edit) for edit in fix.edits],
        },
    }


def _edit_row(file: FileReport, edit: Edit) -> dict[str, Any]:
    """In a notebook lines count from the beginning of a cell."""
    cell = {"cell": file.source.locate_offset(edit.start)[0]} if file.source.in_cells else {}
    return {**_position_range(file, edit.start, edit.end), **cell, "text": edit.text}


def _position_range(file: FileReport, start: int, end: int) -> dict[str, int]:
    _, line, column = file.source.locate_offset(start)
    _, end_line, end_column = file.source.locate_offset(end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}
