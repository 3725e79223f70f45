"""The report of a run as one page: what was found, what each line moves, and each function's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from shardlint.run.dumps import Compiled
from shardlint.run.findings import Moved, RunFinding
from shardlint.run.recompiled import describe_changes
from shardlint.run.report import Report, command_text, format_trip_count, over_text, tests_text
from shardlint.verify.html.page import (
    Cell,
    Column,
    Html,
    number_cell,
    render_code,
    render_document,
    render_element,
    render_status,
    render_table,
    size_cell,
)
from shardlint.verify.html.program import program_view
from shardlint.verify.html.source import Costs, line_id, render_listing
from shardlint.verify.lines import Lines

_FUNCTIONS = 30
_ROWS = 500
_ARRAYS = 12


def html_report(report: Report, version: str) -> str:
    """The page. Source files are read from where they are now."""
    facts = report.facts
    sources = Lines(report.root)
    found = len(facts.found)
    words = f"{found or 'no'} finding{'' if found == 1 else 's'}"
    verdict = render_element("p", render_status("fail") if found else None, f" {words}")
    body = [
        render_element(
            "section",
            render_element("p", render_code(command_text(report.command))),
            render_element("p", f"{report.summary_line()}; the program exited with {report.ended.code}."),
            *(render_element("p", f"note: {note}", class_="quiet") for note in (*report.ended.notes, *facts.notes)),
        ),
        _exceptions_section(report),
        _findings_section(report),
        _moves_section(report, sources),
        _functions_section(report),
        *(
            _function_section(index, each, sources)
            for index, each in enumerate([each for each in facts.functions if _is_shown(each)][:_FUNCTIONS])
        ),
    ]
    footer = f"shardlint {version}; arrays of less than {report.large:,} bytes are not reported."
    return render_document("shardlint run", body, verdict=verdict, footer=footer)


def _is_shown(each: Sequence[Compiled]) -> bool:
    return each[0].function.own and any(one.device_count > 1 for one in each)


def _exceptions_section(report: Report) -> Html | None:
    if not report.raised:
        return None
    texts = (render_element("pre", "\n".join(one.explanation_lines())) for one in report.raised)
    return render_element("section", render_element("h2", "Exceptions"), *texts)


def _findings_section(report: Report) -> Html | None:
    rows = [
        [
            Cell(render_code(report.format_place(found.line))),
            Cell(found.function),
            Cell(f"{found.kind} ({found.code})" if found.code else found.kind),
            Cell(
                [
                    render_element("p", found.message),
                    *(render_element("p", text, class_="quiet") for text in _shorten_arrays(found.arrays)),
                    render_element("p", f"Instead: {found.advice}.") if found.advice else None,
                    render_element("p", f"See {_format_places(found, report)}.", class_="quiet") if found.see else None,
                    render_element("p", f"In {tests_text(found)}.", class_="quiet") if found.tests else None,
                ]
            ),
            size_cell(found.bytes),
        ]
        for found in report.facts.found
    ]
    if not rows:
        return None
    columns = [
        Column("Line"),
        Column("Function"),
        Column("Kind"),
        Column("What"),
        Column("Bytes", number=True),
    ]
    return render_element(
        "section", render_element("h2", "Found"), render_table(columns, rows, caption="Findings", sorted_by=4)
    )


def _shorten_arrays(arrays: Sequence[str]) -> list[str]:
    more = len(arrays) - _ARRAYS
    return [*arrays[:_ARRAYS], *([f"... and {more} more"] if more > 0 else [])]


def _format_places(finding: RunFinding, report: Report) -> str:
    return ", ".join(f"{report.format_place(line)} ({word})" for word, line in finding.see)


def _moves_section(report: Report, sources: Lines) -> Html | None:
    moved = report.facts.moved
    if not moved:
        return None
    costs = Costs()
    for one in moved:
        costs.add_cost(one.line, f"{one.kind} {over_text(one)}{format_trip_count(one)} ({one.function})", one.bytes)
    for found in report.facts.found:
        costs.add_cost(found.line, f"{found.kind} in {found.function}")
    columns = [
        Column("Line"),
        Column("Function"),
        Column("Kind"),
        Column("Over"),
        Column("Arrays"),
        Column("Moved", number=True, help="bytes per device in one call"),
    ]
    return render_element(
        "section",
        render_element("h2", "Bytes moved in one call"),
        render_table(
            columns,
            [_moved_row(one, report) for one in moved[:_ROWS]],
            caption="Bytes per device, by line",
            sorted_by=5,
            long=len(moved) > 20,
        ),
        render_listing(costs, sources, "run"),
    )


def _moved_row(moved: Moved, report: Report) -> list[Cell]:
    place = render_code(report.format_place(moved.line))
    linked = render_element("a", place, href=f"#{line_id('run', moved.line)}") if moved.line.file else place
    return [
        Cell(linked),
        Cell(moved.function),
        Cell(moved.kind),
        Cell(f"{over_text(moved).removeprefix('over ')}{format_trip_count(moved)}"),
        Cell(", ".join((*moved.of, *moved.arrays)[:4])),
        size_cell(moved.bytes),
    ]


def _functions_section(report: Report) -> Html | None:
    rows = []
    for each in report.facts.functions:
        largest = max(each, key=lambda one: sum(leaf.bytes for leaf in one.arguments))
        what = [text for before, after in pairwise(each) for text in describe_changes(before, after)]
        rows.append(
            [
                Cell(render_code(report.format_place(each[0].function.line))),
                Cell(each[0].function.name),
                number_cell(max(one.device_count for one in each)),
                number_cell(len(each)),
                Cell(f"{(seconds := sum(one.seconds for one in each)):.2f} s", seconds),
                size_cell(sum(leaf.bytes for leaf in largest.arguments)),
                size_cell(sum(leaf.bytes for leaf in largest.results)),
                Cell("; ".join(dict.fromkeys(what[:4]))),
            ]
        )
    if not rows:
        return None
    columns = [
        Column("Line"),
        Column("Function"),
        Column("Devices", number=True),
        Column("Compiled", number=True, help="how often"),
        Column("Took", number=True),
        Column("Arguments", number=True, help="bytes per device"),
        Column("Results", number=True, help="bytes per device"),
        Column("Changed between compilations"),
    ]
    return render_element(
        "section",
        render_element("h2", "Functions"),
        render_table(columns, rows, caption="Compiled programs", long=len(rows) > 20),
    )


def _function_section(index: int, each: Sequence[Compiled], sources: Lines) -> Html:
    """The arrays of a function, and how they lie: of its largest compilation."""
    one = max(
        (one for one in each if one.device_count > 1), key=lambda one: sum(leaf.bytes for leaf in one.arguments)
    )
    return render_element(
        "details",
        render_element("summary", f"{one.function.name}, on {one.device_count} devices"),
        program_view(one.program, [], f"f{index}", sources) if one.program.mesh else _arrays_section(one),
        class_="part",
    )


def _arrays_section(compiled: Compiled) -> Html:
    """Arrays alone, where the dump does not say what mesh they lie on."""
    rows = [
        [
            Cell(render_code(leaf.where)),
            Cell(render_code(leaf.array)),
            Cell(leaf.spec),
            size_cell(leaf.bytes),
            number_cell(leaf.copies),
        ]
        for leaf in compiled.program.arrays
    ]
    columns = [
        Column("Array"),
        Column("Type"),
        Column("Lies"),
        Column("A device holds", number=True),
        Column("Copies", number=True),
    ]
    return render_table(columns, rows, caption="Arguments and results", long=len(rows) > 20)
