"""The lines that a finding names are related locations in SARIF and in an editor."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from shardlint.engine.results import FileReport, Options, Report
from shardlint.engine.run import check_paths
from shardlint.output.related_places import related_places
from shardlint.output.sarif import sarif_report
from shardlint.server.protocol_findings import editor_diagnostics
from shardlint.server.session import ShownDiagnostics
from shardlint.server.texts import Buffer
from tests.conftest import Write
from tests.test_formats import jsonschema, schema

HELPERS = """\
import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def shard(mesh, x):
    return jax.device_put(x, NamedSharding(mesh, P("data")))


def twice(mesh, x):
    return shard(mesh, x) * 2
"""
MAIN = """\
import jax
from helpers import twice


@jax.jit
def step(mesh, x):
    return twice(mesh, x) + 1
"""


@pytest.fixture
def report(write: Write, monkeypatch: pytest.MonkeyPatch) -> Report:
    root = write({"helpers.py": HELPERS, "main.py": MAIN, "requirements.txt": "jax==0.12.0\n"})
    monkeypatch.chdir(root)
    return check_paths([Path()], Options(select=("SL201",)))


def named(file: FileReport) -> list[tuple[str, int, str]]:
    (finding,) = file.findings
    assert "called by `twice` at line 10" in finding.why and "traced by jax.jit at main.py:5" in finding.why
    return [(place.path.name, place.line, place.name) for place in related_places(finding, file.path)]


def test_the_call_chain_is_named_with_its_files(report: Report) -> None:
    assert named(report.reports[0]) == [
        ("helpers.py", 10, "line 10"),
        ("main.py", 7, "main.py:7"),
        ("main.py", 5, "main.py:5"),
    ]


def test_sarif_has_them_as_related_locations(report: Report) -> None:
    document = json.loads(sarif_report(report))
    jsonschema.Draft4Validator(schema("sarif-2.1.0")).validate(document)
    (result,) = document["runs"][0]["results"]
    assert [
        (one["id"], one["physicalLocation"]["artifactLocation"]["uri"], one["physicalLocation"]["region"])
        for one in result["relatedLocations"]
    ] == [
        (1, "helpers.py", {"startLine": 10}),
        (2, "main.py", {"startLine": 7}),
        (3, "main.py", {"startLine": 5}),
    ]


def test_an_editor_has_them_as_related_information(report: Report) -> None:
    (file,) = report.reports
    path = Path(os.path.realpath(file.path))
    shown = ShownDiagnostics(Buffer(path.as_uri(), path, file.source, 1), tuple(file.findings))
    (one,) = editor_diagnostics(shown, "utf-16")[path.as_uri()]
    assert [
        (each.location.uri, each.location.range.start.line) for each in one.related_information or ()
    ] == [
        (path.as_uri(), 9),
        ((path.parent / "main.py").as_uri(), 6),
        ((path.parent / "main.py").as_uri(), 4),
    ]
    first = (one.related_information or ())[0].location.range
    assert first == lsp.Range(lsp.Position(9, 4), lsp.Position(9, len("    return shard(mesh, x) * 2")))


def test_lines_of_an_earlier_text_are_not_linked(report: Report) -> None:
    (file,) = report.reports
    path = Path(os.path.realpath(file.path))
    shown = ShownDiagnostics(Buffer(path.as_uri(), path, file.source, 1), carried=tuple(file.findings))
    (one,) = editor_diagnostics(shown, "utf-16")[path.as_uri()]
    assert one.related_information is None


def test_a_name_that_two_files_have_is_left_out(report: Report) -> None:
    (file,) = report.reports
    (finding,) = file.findings
    other = replace(finding, rests=(*finding.rests, "/elsewhere/main.py"))
    assert [place.name for place in related_places(other, file.path)] == ["line 10"]


def test_several_lines_cells_and_lines_of_files_are_told_apart(report: Report) -> None:
    (file,) = report.reports
    why = "lines 3, 5 and 8; line 4 of main.py; line 2 of cell 3; notes.ipynb:cell 2:1"
    finding = replace(file.findings[0], message="", why=why)
    assert [place.name for place in related_places(finding, file.path)] == [
        "line 3",
        "line 5",
        "line 8",
        "main.py:4",
    ]
