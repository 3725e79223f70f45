"""SARIF 2.1.0: what code scanning and most viewers read. With fixes, lasting fingerprints and the rules' pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from shardlint import __version__
from shardlint.output.related_places import RelatedPlace, related_places
from shardlint.output.rows import Row, finding_rows, left_out, path_uri, relative_path, row_span

if TYPE_CHECKING:
    from shardlint.engine.results import Report
    from shardlint.rules_api.rule import Fix

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT = "shardlint/v1"


def sarif_report(report: Report) -> str:
    """The report as a SARIF log of one run."""
    found = list(finding_rows(report))
    codes = list(dict.fromkeys(row.rule_code for row in found))
    run = {
        "tool": {
            "driver": {"name": "shardlint", "version": __version__, "rules": _rule_descriptors(codes, found)}
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The folder that check was run in."}}},
        "invocations": [
            {
                "executionSuccessful": not report.is_incomplete,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": f"{path}: {reason}"}}
                    for path, reason in left_out(report)
                ],
            }
        ],
        "results": [_result_object(row, codes.index(row.rule_code)) for row in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule_descriptors(codes: Iterable[str], rows: list[Row]) -> list[dict[str, Any]]:
    from shardlint.rules_api.pages import render_page
    from shardlint.rules_api.registry import rule_entries

    described = []
    for code in codes:
        kind = rule_entries()[code].load_rule()
        first = next(row for row in rows if row.rule_code == code)
        summary = (kind.__doc__ or kind.name).strip().splitlines()[0]
        rule: dict[str, Any] = {
            "id": code,
            "name": kind.name,
            "shortDescription": {"text": summary},
            "help": {"text": summary, "markdown": render_page(kind)},
            "defaultConfiguration": {"level": first.severity_level},
            "properties": {"tags": [kind.harm.value], "precision": _precision_of_row(first)},
        }
        if first.rule_page_address:
            rule["helpUri"] = first.rule_page_address
        described.append(rule)
    return described


def _precision_of_row(row: Row) -> str:
    return {"proven": "very-high", "likely": "high"}.get(row.finding.certainty.value, "medium")


def _result_object(row: Row, index: int) -> dict[str, Any]:
    region = {
        "startLine": row.line,
        "startColumn": row.column,
        "endLine": row.end_line,
        "endColumn": row.end_column,
    }
    result: dict[str, Any] = {
        "ruleId": row.rule_code,
        "ruleIndex": index,
        "level": row.severity_level,
        "message": {"text": row.full_text},
        "locations": [
            {"physicalLocation": {"artifactLocation": _artifact_location(row.file_uri), "region": region}}
        ],
        "partialFingerprints": {_FINGERPRINT: row.fingerprint},
        "properties": {"harm": row.finding.harm.value, "certainty": row.finding.certainty.value},
    }
    places = () if row.file.source.in_cells else related_places(row.finding, row.file.path)
    if places:
        result["relatedLocations"] = [
            _related_location(place, number) for number, place in enumerate(places, 1)
        ]
    if row.finding.fix is not None and not row.file.source.in_cells:
        result["fixes"] = [_fix_object(row, row.finding.fix)]
    return result


def _fix_object(row: Row, fix: Fix) -> dict[str, Any]:
    replacements = []
    for edit in fix.edits:
        line, column, end_line, end_column = row_span(row.file, edit.start, edit.end)
        region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
        replacements.append({"deletedRegion": region, "insertedContent": {"text": edit.text}})
    note = "" if fix.safety == "safe" else f" (unsafe fix{f': {fix.why}' if fix.why else ''})"
    return {
        "description": {"text": f"{row.advice}{note}"},
        "artifactChanges": [{"artifactLocation": _artifact_location(row.file_uri), "replacements": replacements}],
    }


def _related_location(place: RelatedPlace, number: int) -> dict[str, Any]:
    location = {
        "artifactLocation": _artifact_location(path_uri(relative_path(place.path))),
        "region": {"startLine": place.line},
    }
    return {"id": number, "physicalLocation": location, "message": {"text": place.name}}


def _artifact_location(address: str) -> dict[str, str]:
    return {"uri": address} if address.startswith("file:") else {"uri": address, "uriBaseId": "%SRCROOT%"}
