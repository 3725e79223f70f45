"""JUnit XML, which CI systems read: a suite a fixture (or proof), a test case a mesh and level."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from shardlint.output.printable import make_printable, printable_lines
from shardlint.verify.report import FAIL, SKIP, Result, Run
from shardlint.verify.spec import sizes_text


def junit_report(run: Run, version: str) -> str:
    """The report as JUnit XML.

    All failures of a case are in its one `failure` element, for most readers show only the first. Characters
    that XML has not, and those that steer a terminal, are written as escapes (`\\x1b`).
    """
    counts = run.count_by_status()
    root = Element(
        "testsuites",
        name="shardlint verify",
        tests=str(len(run.results)),
        failures=str(counts[FAIL]),
        errors="0",
        skipped=str(counts[SKIP]),
        time=_total_seconds(run.results),
    )
    suites: dict[str, list[Result]] = {}
    for result in run.results:
        suites.setdefault(result.fixture or result.target, []).append(result)
    for name, results in suites.items():
        root.append(_make_suite(name, results, run, version))
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _make_suite(name: str, results: list[Result], run: Run, version: str) -> Element:
    suite = Element(
        "testsuite",
        name=make_printable(name),
        tests=str(len(results)),
        failures=str(sum(result.status == FAIL for result in results)),
        errors="0",
        skipped=str(sum(result.status == SKIP for result in results)),
        time=_total_seconds(results),
    )
    properties = SubElement(suite, "properties")
    releases = {"shardlint": version, **run.releases}
    for package, release in releases.items():
        SubElement(properties, "property", name=make_printable(package), value=make_printable(release))
    for limit in run.limits:
        SubElement(properties, "property", name="limit", value=make_printable(limit))
    for kept in dict.fromkeys(result.kept for result in results if result.kept):
        SubElement(properties, "property", name="kept from", value=make_printable(kept))
    for result in results:
        _add_case(suite, result)
    return suite


def _add_case(suite: Element, result: Result) -> None:
    parts = [f"mesh {sizes_text(result.mesh)}" if result.mesh else "", result.level, result.topology]
    name = " ".join(part for part in parts if part) or "collect"
    case = SubElement(
        suite,
        "testcase",
        classname=make_printable(result.target),
        name=make_printable(name),
        time=f"{result.seconds:.3f}",
    )
    if result.fixture:
        case.set("file", make_printable(result.fixture.rpartition("::")[0]))
    if result.status == SKIP:
        SubElement(case, "skipped", message=make_printable(result.reason))
    elif result.status == FAIL:
        texts = [failure.failure_text() for failure in result.failures] or [result.reason or "failed"]
        first = make_printable(texts[0].splitlines()[0] if texts[0] else "failed")
        more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
        kinds = dict.fromkeys(failure.kind for failure in result.failures)
        failure = SubElement(case, "failure", message=first + more, type=make_printable(", ".join(kinds) or "failed"))
        failure.text = printable_lines("\n".join([*texts, *_context_lines(result)]))
    if result.output:
        SubElement(case, "system-out").text = printable_lines("\n".join(result.output))


def _context_lines(result: Result) -> Iterable[str]:
    if result.line:
        yield f"{'fn' if result.mesh else 'proof'}: {result.line}" + (f", {result.how}" if result.how else "")
    yield from (f"note: {note}" for note in result.notes)
    if result.rerun:
        yield f"rerun: {result.rerun}"


def _total_seconds(results: Iterable[Result]) -> str:
    return f"{sum(result.seconds for result in results):.3f}"
