"""One compiled program as HTML: its arrays, pictures, communication, products, warnings and source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardlint.verify.facts import Array, Collective, Line, Product, Program
from shardlint.verify.html.layout import Layouts
from shardlint.verify.html.page import (
    Cell,
    Child,
    Column,
    Html,
    join_html,
    number_cell,
    render_code,
    render_element,
    render_share,
    render_table,
    size_cell,
)
from shardlint.verify.html.source import Costs, line_id, render_listing
from shardlint.verify.lines import Lines
from shardlint.verify.report import Failure
from shardlint.verify.texts import size_text
from shardlint.verify.working_directory import shown_path

_LONG = 25
_SMALL = 40


def program_view(
    program: Program, failures: Sequence[Failure], prefix: str, sources: Lines, compiled: bool = True
) -> Html:
    """All that is known of a program. `prefix` makes ids unlike those of others on the page; `compiled` is False
    where the partitioner was not run, so that there being no communication says nothing.
    """
    layouts = Layouts(program.mesh, prefix, small=len(program.arrays) <= _SMALL)
    arrays = [_array_table(program, role, failures, layouts) for role in ("out", "in")]
    costs = _costs_of_program(program)
    return join_html(
        [
            _memory_bar(program) if program.memory_bytes else None,
            *(render_element("p", note, class_="quiet") for note in program.notes),
            *arrays,
            _collapsible_part("Shardings of the arrays", layouts.render_figures()) if program.arrays else None,
            _warning_section(program),
            _communication_section(program, prefix) if compiled or program.collectives else None,
            _product_section(program, prefix),
            _collapsible_part("Source", render_listing(costs, sources, prefix)),
        ]
    )


def _collapsible_part(title: str, body: Child, open_: bool = True) -> Html | None:
    if body is None:
        return None
    return render_element("details", render_element("summary", title), body, class_="part", open=open_)


_PARTS = ("arguments", "results", "temporaries")


def _memory_bar(program: Program) -> Html:
    """Return the memory of one device, as a bar."""
    parts = (program.argument_bytes, program.output_bytes - program.alias_bytes, program.temporary_bytes)
    whole = sum(max(part, 0) for part in parts) or 1
    bars, left = [], 0.0
    for index, part in enumerate(parts):
        width = 100 * max(part, 0) / whole
        bars.append(
            render_element("rect", x=f"{left:.2f}", y=0, width=f"{width:.2f}", height=10, class_=f"m{index}")
        )
        left += width
    words = [
        render_element(
            "li",
            render_element(
                "svg",
                render_element("rect", width=10, height=10, class_=f"m{index}"),
                class_="key",
                viewbox="0 0 10 10",
            ),
            f"{name} {size_text(part)}",
            class_="chip",
        )
        for index, (name, part) in enumerate(zip(_PARTS, parts, strict=True))
    ]
    reused = (
        f", and {size_text(program.alias_bytes)} of the results reuse donated arguments"
        if program.alias_bytes
        else ""
    )
    return join_html(
        [
            render_element("p", render_element("strong", f"{size_text(program.memory_bytes)} on one device"), reused),
            render_element(
                "svg",
                bars,
                class_="memory",
                viewbox="0 0 100 10",
                preserveAspectRatio="none",
                aria_hidden="true",
            ),
            render_element("ul", words, class_="chips"),
        ]
    )


def _array_table(program: Program, role: str, failures: Sequence[Failure], layouts: Layouts) -> Html | None:
    arrays = [array for array in program.arrays if array.role == role]
    if not arrays:
        return None
    wrong = {failure.where for failure in failures}
    declared = any(array.expected for array in arrays)
    given = any(array.donated for array in arrays)
    columns = [
        Column("Leaf"),
        Column("Array"),
        *([Column("Expected")] if declared else []),
        Column("Actual" if declared else "Spec"),
        Column("Layout"),
        Column("Per device", number=True, help="bytes one device holds"),
        Column("Whole", number=True, help="bytes of the whole array"),
        Column("Copies", number=True, help="number of devices with the same shard"),
        *([Column("Donated")] if given else []),
    ]
    rows = [_array_row(array, array.where in wrong, declared, given, layouts) for array in arrays]
    name = "Results" if role == "out" else "Arguments"
    total = size_text(sum(array.bytes for array in arrays))
    body = render_table(
        columns,
        rows,
        caption=f"{name}: {len(arrays)} array{'s' if len(arrays) > 1 else ''}, {total} per device",
        row_classes=["bad" if array.where in wrong else "" for array in arrays],
        long=len(arrays) > _LONG,
    )
    bad = any(array.where in wrong for array in arrays)
    return _collapsible_part(name, body, role == "out" or bad or len(arrays) <= _LONG)


def _array_row(array: Array, wrong: bool, declared: bool, given: bool, layouts: Layouts) -> list[Cell]:
    mark = render_element("strong", "✗ ", class_="minus", title="a failure names this leaf") if wrong else None
    donated = {True: "reused", False: "donated, not reused", None: "donated; reuse not known"}[array.aliased]
    return [
        Cell(join_html([mark, render_code(array.where or "(whole)")])),
        Cell(render_code(array.array)),
        *([Cell(render_code(array.expected) if array.expected else "")] if declared else []),
        Cell(render_code(array.spec)),
        Cell(layouts.add_array(array)),
        size_cell(array.bytes),
        size_cell(array.bytes_whole),
        Cell(f"×{array.copies}", array.copies),
        *([Cell(donated if array.donated else "")] if given else []),
    ]


def _communication_section(program: Program, prefix: str) -> Html | None:
    if not program.collectives:
        return _collapsible_part("Communication", render_element("p", "None: no device needs data of another."))
    found = sorted(program.collectives, key=lambda one: -one.moved_bytes)
    whole = program.moved_bytes
    columns = [
        Column("Line"),
        Column("What"),
        Column("Over"),
        Column("Devices", number=True, help="number of devices in one group"),
        Column("Array"),
        Column("Once", number=True, help="bytes on one device, of the larger side"),
        Column("Times", number=True, help="in one call"),
        Column("Moved", number=True, help="once x times"),
        Column("Share", number=True),
    ]
    rows = [
        [
            Cell(_line_link(one.line, prefix)),
            Cell(
                join_html([one.kind, join_html([" of ", render_code(one.of)]) if one.of else None]),
                class_="text",
            ),
            Cell(render_code(", ".join(one.axes)) if one.axes else ""),
            number_cell(one.group),
            Cell(render_code(one.array)),
            size_cell(one.bytes),
            number_cell(one.trips),
            size_cell(one.moved_bytes),
            Cell(
                render_share(one.moved_bytes, whole),
                one.moved_bytes,
                title=f"{100 * one.moved_bytes / whole:.1f} %" if whole else "",
            ),
        ]
        for one in found
    ]
    by = {} if program.backend == "cpu" else {"compiled for": program.backend}
    said = ", ".join(f"{name} {value}" for name, value in by.items())
    unknown = sum(one.trips is None for one in found)
    caption = f"{len(found)} collectives move {size_text(whole)} in one call" + (f" ({said})" if said else "")
    if unknown:
        caption += f", and more: {unknown} of them run in loops of unknown length, counted once"
    body = render_table(columns, rows, caption=caption, sorted_by=7, long=len(rows) > _LONG)
    return _collapsible_part("Communication", body)


def _product_section(program: Program, prefix: str) -> Html | None:
    if not program.products:
        return None
    columns = [
        Column("Line"),
        Column("Product"),
        Column(
            "Parallelism",
            help="data: only the activations are sharded; tensor: only the weights; hybrid: both",
        ),
        Column("Free", help="mesh axes that shard dimensions of the result"),
        Column("Reduced", help="mesh axes that shard contracted dimensions"),
        Column("Batch", help="mesh axes that shard batch dimensions"),
        Column("FLOPs", number=True, help="on one device, once"),
        Column("Times", number=True, help="in one call"),
        Column("Paid", number=True, help="bytes of its collectives, in one call"),
    ]
    rows = [_product_row(product, program.collectives, prefix) for product in program.products]
    natural = sum(not product.paid for product in program.products)
    caption = f"{len(rows)} products, {natural} of them without communication"
    return _collapsible_part(
        "Products", render_table(columns, rows, caption=caption, long=len(rows) > _LONG), len(rows) <= _LONG
    )


def _product_row(product: Product, collectives: Sequence[Collective], prefix: str) -> list[Cell]:
    paid = [collectives[index] for index in product.paid if 0 <= index < len(collectives)]
    moved = sum(one.moved_bytes for one in paid)
    what = ", ".join(dict.fromkeys(f"{one.kind} over {', '.join(one.axes)}" for one in paid))
    return [
        Cell(_line_link(product.line, prefix)),
        Cell(render_code(product.text), class_="wide"),
        Cell(product.parallelism),
        *(
            Cell(render_code(", ".join(axes)) if axes else "")
            for axes in (product.free, product.reduced, product.batch)
        ),
        Cell(_format_flops(product.flops), product.flops, title=f"{product.flops:,}"),
        number_cell(product.trips),
        Cell(join_html([size_text(moved), render_element("br"), render_element("span", what, class_="quiet")]), moved)
        if paid
        else Cell("nothing", 0, class_="quiet"),
    ]


def _warning_section(program: Program) -> Html | None:
    if not program.warned:
        return None
    items = [
        render_element(
            "li",
            render_element("span", one.kind, class_="kind"),
            f" {shown_path(one.line.file)}:{one.line.line} " if one.line.file else " ",
            f"{size_text(one.bytes)}/device" if one.bytes else None,
            render_element("pre", one.message),
        )
        for one in program.warned
    ]
    return _collapsible_part("What the partitioner did on its own", render_element("ul", items, class_="failures"))


def _costs_of_program(program: Program) -> Costs:
    costs = Costs()
    groups: dict[tuple[Line, str, tuple[str, ...]], list[Collective]] = {}
    for one in program.collectives:
        groups.setdefault((one.line, one.kind, one.axes), []).append(one)
    for (line, kind, axes), each in groups.items():
        often = sum(one.trips or 1 for one in each)
        times = f" ×{often}" if often > 1 else ""
        costs.add_cost(line, f"{kind} over {', '.join(axes)}{times}", sum(one.moved_bytes for one in each))
    for product in program.products:
        kind = "product" if product.parallelism == "none" else f"{product.parallelism}-parallel product"
        costs.add_cost(
            product.line, f"{kind}, {'with communication' if product.paid else 'without communication'}"
        )
    for warned in program.warned:
        costs.add_cost(warned.line, warned.kind)
    return costs


def _line_link(line: Line, prefix: str) -> Html:
    if not line.file:
        return render_element("span", "(no line)", class_="quiet")
    shown = f"{shown_path(line.file)}:{line.line}"
    link = render_element("a", render_code(shown), href=f"#{line_id(prefix, line)}")
    return join_html([link, render_element("span", f" {line.function}", class_="quiet") if line.function else None])


_UNITS = ("", "k", "M", "G", "T", "P")


def _format_flops(number: float) -> str:
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            break
        number /= 1000
    return f"{number:.3g}{' ' if unit else ''}{unit}"


def mesh_text(mesh: Mapping[str, int]) -> str:
    """A mesh as titles have it: `data=4 model=2`."""
    return " ".join(f"{axis}={size}" for axis, size in mesh.items())
