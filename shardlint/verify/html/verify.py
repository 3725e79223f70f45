"""The page of `shardlint verify`: the sweep over meshes, then every fixture on every mesh."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shardlint.output.phrases import format_count
from shardlint.verify.facts import Program
from shardlint.verify.html.page import (
    Cell,
    Child,
    Column,
    Html,
    join_html,
    number_cell,
    render_code,
    render_document,
    render_element,
    render_status,
    render_table,
    size_cell,
)
from shardlint.verify.html.program import mesh_text, program_view
from shardlint.verify.lines import Lines
from shardlint.verify.report import FAIL, PASS, SKIP, Result, Run, failure_texts
from shardlint.verify.texts import size_text

_SIMULATED = (
    "On simulated devices. Which bytes move over which axes is exact; other hardware may use other collectives "
    "for it."
)


@dataclass
class _OnMesh:
    """A fixture on one mesh: the results of its levels."""

    id: str
    mesh: Mapping[str, int]
    results: list[Result] = field(default_factory=list)

    def has_failed(self) -> bool:
        return any(result.status == FAIL for result in self.results)

    def representative_program(self) -> Program | None:
        """The one that stands for it in the sweep: the first level's that compiled."""
        programs = [one for one in self.results if one.program is not None and one.level != "trace"]
        return programs[0].program if programs else None


@dataclass
class _Fixture:
    """A fixture, by its name and what it is of."""

    id: str
    name: str
    target: str
    meshes: dict[tuple[tuple[str, int], ...], _OnMesh] = field(default_factory=dict)
    others: list[Result] = field(default_factory=list)
    """Results of no mesh: it could not be read, or was skipped everywhere."""

    def all_results(self) -> list[Result]:
        return [*self.others, *(result for on in self.meshes.values() for result in on.results)]


def html_report(run: Run, version: str) -> str:
    """The report as one HTML page, which loads nothing.

    Sources of the user's files are read now, as they are; only Python files that a line names.
    """
    fixtures, others = _group_results(run.results)
    counts = run.count_by_status()
    sections: list[Child] = [_run_facts(run)]
    if fixtures:
        sections.append(_sweep_table(fixtures))
    whole = sum(len(fixture.meshes) for fixture in fixtures)
    sections += [_fixture_section(fixture, open_all=whole == 1) for fixture in fixtures]
    if others:
        sections.append(_other_results(others))
    verdict = render_element(
        "ul",
        [
            render_element("li", render_element("strong", str(counts[word])), f" {said}", class_=f"chip status {word}")
            for word, said in ((FAIL, "failed"), (PASS, "passed"), (SKIP, "skipped"))
            if counts[word] or word == PASS
        ],
        class_="chips",
    )
    footer = join_html([f"shardlint {version}. Each level claims only what it names and ran."])
    return render_document("shardlint verify", sections, verdict=verdict, footer=footer)


def _group_results(results: Iterable[Result]) -> tuple[list[_Fixture], list[Result]]:
    fixtures: dict[str, _Fixture] = {}
    others: list[Result] = []
    for result in results:
        if not (result.fixture or result.mesh):
            others.append(result)
            continue
        name = result.fixture or result.target
        new = _Fixture(f"f{len(fixtures)}", name, result.target)
        fixture = fixtures.setdefault(name, new)
        if result.mesh:
            key = tuple(result.mesh.items())
            on = _OnMesh(f"{fixture.id}-m{len(fixture.meshes)}", result.mesh)
            fixture.meshes.setdefault(key, on).results.append(result)
        else:
            fixture.others.append(result)
    return list(fixtures.values()), others


def _run_facts(run: Run) -> Html:
    releases = [render_element("li", f"{name} {release}", class_="chip") for name, release in run.releases.items()]
    said = [
        *run.goldens,
        *(f"limit: {limit}" for limit in run.limits),
        *(f"self-test: {one}" for one in run.self_test),
    ]
    return join_html(
        [
            render_element("ul", releases, class_="chips", aria_label="releases") if releases else None,
            render_element(
                "details",
                render_element("summary", "Self-test, limits and goldens"),
                render_element("ul", [render_element("li", one) for one in said]),
            )
            if said
            else None,
        ]
    )


def _sweep_table(fixtures: Sequence[_Fixture]) -> Html:
    levels = list(
        dict.fromkeys(result.level for one in fixtures for on in one.meshes.values() for result in on.results)
    )
    columns = [
        Column("Fixture"),
        Column("Mesh"),
        Column("Devices", number=True),
        *(Column(level or "level") for level in levels),
        Column("Failures", number=True),
        Column("The first"),
        Column("Bytes moved", number=True, help="by one device in one call"),
        Column("Collectives", number=True),
        Column(
            "Memory",
            number=True,
            help=("on one device: arguments, results and temporaries, donated buffers counted once"),
        ),
        Column("Most copied", number=True, help="the largest replicated result"),
    ]
    rows = [_sweep_row(fixture, on, levels) for fixture in fixtures for on in fixture.meshes.values()]
    classes = ["bad" if on.has_failed() else "" for fixture in fixtures for on in fixture.meshes.values()]
    if not rows:
        return join_html([])
    heading = render_element("h2", "All meshes", id="sweep")
    runs = format_count(len(rows), "run")
    caption = f"{runs} of {format_count(len(fixtures), 'fixture')} on a mesh; a header sorts"
    return render_element(
        "section", heading, render_table(columns, rows, caption=caption, row_classes=classes, long=len(rows) > 40)
    )


def _sweep_row(fixture: _Fixture, on: _OnMesh, levels: Sequence[str]) -> list[Cell]:
    program = on.representative_program()
    by_level = []
    for level in levels:
        found = [result for result in on.results if result.level == level]
        shown = [
            render_element("span", render_status(one.status), f" {one.topology}" if one.topology else None)
            for one in found
        ]
        by_level.append(Cell(join_html(shown, " ") if shown else render_element("span", "not run", class_="quiet")))
    unknown = Cell("", -1)
    copied = [array.bytes for array in program.arrays if array.role == "out"] if program else []
    if program:
        copied = [
            one.bytes for one in program.arrays if one.role == "out" and one.copies == program.device_count > 1
        ]
    return [
        Cell(render_element("a", _short_fixture_name(fixture.name), href=f"#{fixture.id}")),
        Cell(render_element("a", render_code(mesh_text(on.mesh)), href=f"#{on.id}")),
        number_cell(math.prod(on.mesh.values())),
        *by_level,
        number_cell(sum(len(result.failures) for result in on.results)),
        Cell(_first_failure_line(on), class_="wide"),
        size_cell(program.moved_bytes) if program else unknown,
        number_cell(len(program.collectives)) if program else unknown,
        size_cell(program.memory_bytes) if program else unknown,
        size_cell(max(copied, default=0)) if program else unknown,
    ]


def _first_failure_line(on: _OnMesh) -> str:
    """The first line of the first failure."""
    texts = (text for result in on.results for _, text in failure_texts(result.failures))
    return next(texts, "").partition("\n")[0]


def _short_fixture_name(name: str) -> str:
    file, _, variable = name.rpartition("::")
    return f"{Path(file).name}::{variable}" if file else variable


def _fixture_section(fixture: _Fixture, open_all: bool) -> Html:
    results = fixture.all_results()
    folder = Path(fixture.name.rpartition("::")[0] or ".").parent
    sources = Lines(folder)
    line = next((result.line for result in results if result.line), "")
    parts: list[Child] = [
        render_element("h2", render_code(fixture.name), id=fixture.id),
        render_element(
            "p", "of ", render_code(fixture.target), f", defined at {line}" if line else None, class_="quiet"
        ),
        *(_result_section(result) for result in fixture.others),
    ]
    for on in fixture.meshes.values():
        parts.append(_mesh_section(on, sources, open_all or on.has_failed()))
    return render_element("section", parts)


def _mesh_section(on: _OnMesh, sources: Lines, open_: bool) -> Html:
    program = on.representative_program()
    chips = [
        render_element(
            "li",
            render_status(one.status),
            f" {one.level}",
            f" {one.topology}" if one.topology else None,
            class_="chip",
        )
        for one in on.results
    ]
    if program:
        chips.append(render_element("li", f"{size_text(program.moved_bytes)} moved", class_="chip"))
        chips.append(render_element("li", f"{size_text(program.memory_bytes)} a device", class_="chip"))
    summary = render_element("summary", render_code(mesh_text(on.mesh)), render_element("ul", chips, class_="chips"))
    body: list[Child] = [_result_section(result) for result in on.results]
    for index, result in enumerate(on.results):
        if result.program is None:
            continue
        wrong = [failure for one in on.results for failure in one.failures]
        compiled = result.level != "trace"
        backend = result.program.backend
        body.append(
            render_element("h3", f"Level {result.level}" + (f", compiled for {backend}" if compiled else ""))
        )
        if compiled and backend == "cpu":
            body.append(render_element("p", _SIMULATED, class_="quiet"))
        body.append(program_view(result.program, wrong, f"{on.id}-{index}", sources, compiled))
    classes = "mesh failed" if on.has_failed() else "mesh"
    return render_element("details", summary, body, class_=classes, id=on.id, open=open_)


def _result_section(result: Result) -> Html:
    """Return the result of one level, in words."""
    said = [f"{result.checked} checked" if result.status == PASS else "", result.reason, result.how]
    head = render_element(
        "p",
        render_status(result.status),
        render_element("strong", f" {result.level} {result.topology}".rstrip() + " ") if result.level else " ",
        "; ".join(part for part in said if part),
        render_element("span", f" ({_format_duration(result)})", class_="quiet") if result.seconds else None,
    )
    return join_html(
        [
            head,
            _failure_list(result),
            *(render_element("p", f"note: {note}", class_="quiet") for note in result.notes),
            render_element("p", "Reproduce: ", render_code(result.rerun))
            if result.rerun and result.status == FAIL
            else None,
            render_element("pre", "\n".join(result.output), class_="output mono") if result.output else None,
        ]
    )


def _format_duration(result: Result) -> str:
    again = f", kept from {result.kept}" if result.kept else ", from cache" if result.cached else ""
    return f"{result.seconds:.1f} s{again}"


def _failure_list(result: Result) -> Html | None:
    found = [_failure_item(kind, text) for kind, text in failure_texts(result.failures)]
    return render_element("ul", found, class_="failures") if found else None


def _failure_item(kind: str, text: str) -> Html:
    first, _, more = text.partition("\n")
    marked = [
        render_element("span", line, class_={"+": "line plus", "-": "line minus"}.get(line[:1], "line"))
        for line in more.splitlines()
    ]
    return render_element(
        "li",
        render_element("span", kind, class_="kind"),
        " ",
        render_element("span", first, class_="mono"),
        render_element("pre", marked) if marked else None,
    )


def _other_results(results: Sequence[Result]) -> Html:
    """Proofs of rules, and files that could not be read."""
    columns = [
        Column("Target"),
        Column("Level"),
        Column("Status"),
        Column("Checked", number=True),
        Column("What"),
    ]
    rows = [
        [
            Cell(render_code(result.target)),
            Cell(result.level),
            Cell(render_status(result.status)),
            number_cell(result.checked),
            Cell(
                join_html(
                    [
                        result.reason or None,
                        _failure_list(result),
                    ]
                ),
                class_="wide",
            ),
        ]
        for result in results
    ]
    classes = ["bad" if result.status == FAIL else "" for result in results]
    title = (
        "Proofs of rules" if all(result.level or result.status == SKIP for result in results) else "Others"
    )
    return render_element(
        "section",
        render_element("h2", title),
        render_table(columns, rows, row_classes=classes, caption=title),
    )
