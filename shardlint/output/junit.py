"""JUnit XML: a suite a file, a failed case a finding; what was not checked is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from shardlint.output.printable import make_printable, printable_lines
from shardlint.output.rows import Row, finding_rows, left_out

if TYPE_CHECKING:
    from shardlint.engine.results import Report


def junit_report(report: Report) -> str:
    """The report as JUnit XML. Characters that XML has not are written as escapes (`\\x1b`)."""
    files: dict[str, list[Row]] = {}
    for row in finding_rows(report):
        files.setdefault(row.path, []).append(row)
    skipped = list(left_out(report))
    root = Element("testsuites", name="shardlint")
    for path, found in files.items():
        suite = _add_suite(root, path, len(found), failures=len(found))
        for row in found:
            case = SubElement(
                suite, "testcase", classname=make_printable(row.path), name=_case_name(row), time="0"
            )
            case.set("file", make_printable(row.path))
            case.set("line", str(row.line))
            first = make_printable(row.message.splitlines()[0])
            SubElement(case, "failure", message=first, type=row.rule_code).text = printable_lines(row.full_text)
    if skipped:
        suite = _add_suite(root, "not checked", len(skipped), errors=len(skipped))
        for path, reason in skipped:
            case = SubElement(suite, "testcase", classname=make_printable(path), name="check", time="0")
            SubElement(case, "error", message=make_printable(reason), type="not-checked")
    if not files and not skipped:  # a report without any case is taken for one that is missing
        suite = _add_suite(root, "shardlint", 1)
        SubElement(suite, "testcase", classname="shardlint", name=f"{report.checked_count} files", time="0")
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode")


def _add_suite(root: Element, name: str, tests: int, failures: int = 0, errors: int = 0) -> Element:
    return SubElement(
        root,
        "testsuite",
        name=make_printable(name),
        tests=str(tests),
        failures=str(failures),
        errors=str(errors),
        skipped="0",
        time="0",
    )


def _case_name(row: Row) -> str:
    return f"{row.rule_title} at {row.line}:{row.column}"
