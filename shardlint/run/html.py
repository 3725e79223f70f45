"""The report of a run as one page: what was found, what each line moves, and each function's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from shardlint.run.dumps import Compiled
from shardlint.run.findings import Found, Moved
from shardlint.run.recompiled import changed
from shardlint.run.report import Report, command_text, over_text, tests_text, trips_text
from shardlint.verify.html.page import Cell, Column, Html, code, count, document, element, size, status, table
from shardlint.verify.html.program import program_view
from shardlint.verify.html.source import Costs, line_id, listing
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
    verdict = element("p", status("fail") if found else None, f" {words}")
    body = [
        element(
            "section",
            element("p", code(command_text(report.command))),
            element("p", f"{report.summary()}; the program exited with {report.ended.code}."),
            *(element("p", f"note: {note}", class_="quiet") for note in (*report.ended.notes, *facts.notes)),
        ),
        _found(report),
        _moved(report, sources),
        _functions(report),
        *(
            _program(index, each, sources)
            for index, each in enumerate([each for each in facts.functions if _shown(each)][:_FUNCTIONS])
        ),
    ]
    footer = f"shardlint {version}; arrays of less than {report.large:,} bytes are not reported."
    return document("shardlint run", body, verdict=verdict, footer=footer)


def _shown(each: Sequence[Compiled]) -> bool:
    return each[0].function.own and any(one.devices > 1 for one in each)


def _found(report: Report) -> Html | None:
    rows = [
        [
            Cell(code(report.place(found.line))),
            Cell(found.function),
            Cell(f"{found.kind} ({found.code})" if found.code else found.kind),
            Cell(
                [
                    element("p", found.message),
                    *(element("p", text, class_="quiet") for text in _shortened(found.arrays)),
                    element("p", f"Instead: {found.advice}.") if found.advice else None,
                    element("p", f"See {_places(found, report)}.", class_="quiet") if found.see else None,
                    element("p", f"In {tests_text(found)}.", class_="quiet") if found.tests else None,
                ]
            ),
            size(found.bytes),
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
    return element("section", element("h2", "Found"), table(columns, rows, caption="Findings", sorted_by=4))


def _shortened(arrays: Sequence[str]) -> list[str]:
    more = len(arrays) - _ARRAYS
    return [*arrays[:_ARRAYS], *([f"... and {more} more"] if more > 0 else [])]


def _places(found: Found, report: Report) -> str:
    return ", ".join(f"{report.place(line)} ({word})" for word, line in found.see)


def _moved(report: Report, sources: Lines) -> Html | None:
    moved = report.facts.moved
    if not moved:
        return None
    costs = Costs()
    for one in moved:
        costs.add(one.line, f"{one.kind} {over_text(one)}{trips_text(one)} ({one.function})", one.bytes)
    for found in report.facts.found:
        costs.add(found.line, f"{found.kind} in {found.function}")
    columns = [
        Column("Line"),
        Column("Function"),
        Column("Kind"),
        Column("Over"),
        Column("Arrays"),
        Column("Moved", number=True, help="bytes per device in one call"),
    ]
    return element(
        "section",
        element("h2", "Bytes moved in one call"),
        table(
            columns,
            [_moved_row(one, report) for one in moved[:_ROWS]],
            caption="Bytes per device, by line",
            sorted_by=5,
            long=len(moved) > 20,
        ),
        listing(costs, sources, "run"),
    )


def _moved_row(one: Moved, report: Report) -> list[Cell]:
    place = code(report.place(one.line))
    linked = element("a", place, href=f"#{line_id('run', one.line)}") if one.line.file else place
    return [
        Cell(linked),
        Cell(one.function),
        Cell(one.kind),
        Cell(f"{over_text(one).removeprefix('over ')}{trips_text(one)}"),
        Cell(", ".join((*one.of, *one.arrays)[:4])),
        size(one.bytes),
    ]


def _functions(report: Report) -> Html | None:
    rows = []
    for each in report.facts.functions:
        largest = max(each, key=lambda one: sum(leaf.bytes for leaf in one.arguments))
        what = [text for before, after in pairwise(each) for text in changed(before, after)]
        rows.append(
            [
                Cell(code(report.place(each[0].function.line))),
                Cell(each[0].function.name),
                count(max(one.devices for one in each)),
                count(len(each)),
                Cell(f"{(seconds := sum(one.seconds for one in each)):.2f} s", seconds),
                size(sum(leaf.bytes for leaf in largest.arguments)),
                size(sum(leaf.bytes for leaf in largest.results)),
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
    return element(
        "section",
        element("h2", "Functions"),
        table(columns, rows, caption="Compiled programs", long=len(rows) > 20),
    )


def _program(index: int, each: Sequence[Compiled], sources: Lines) -> Html:
    """The arrays of a function, and how they lie: of its largest compilation."""
    one = max(
        (one for one in each if one.devices > 1), key=lambda one: sum(leaf.bytes for leaf in one.arguments)
    )
    return element(
        "details",
        element("summary", f"{one.function.name}, on {one.devices} devices"),
        program_view(one.program, [], f"f{index}", sources) if one.program.mesh else _arrays(one),
        class_="part",
    )


def _arrays(one: Compiled) -> Html:
    """Arrays alone, where the dump does not say what mesh they lie on."""
    rows = [
        [
            Cell(code(leaf.where)),
            Cell(code(leaf.array)),
            Cell(leaf.spec),
            size(leaf.bytes),
            count(leaf.copies),
        ]
        for leaf in one.program.arrays
    ]
    columns = [
        Column("Array"),
        Column("Type"),
        Column("Lies"),
        Column("A device holds", number=True),
        Column("Copies", number=True),
    ]
    return table(columns, rows, caption="Arguments and results", long=len(rows) > 20)
