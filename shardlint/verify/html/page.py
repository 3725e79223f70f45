"""Building blocks of a self-contained HTML page, for the reports of `shardlint verify` and `shardlint run` alike.

    from shardlint.verify.html.page import Cell, Column, render_document, render_element, size_cell, render_table
    from shardlint.verify.html.source import render_listing  # source lines with bytes beside them
    from shardlint.verify.html.layout import Layouts      # pictures of arrays on a mesh

    rows = [[Cell("train.py:41"), size_cell(2**30)], ...]
    columns = [Column("Line"), Column("Moved", number=True)]
    body = render_element("section", render_element("h2", "Lines"), render_table(columns, rows))
    text = render_document("shardlint run", [body])

Everything is escaped unless it is `Html`, which only `element` and its kind make: what a program or a file says can
never become markup. The page loads nothing, works from `file://`, and its Content-Security-Policy forbids every
script and style but its own, so there are no `style=` or `on...=` attributes: style by a class of page.css. Tables
sort by their headers and long ones can be filtered; without JavaScript everything is there all the same.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeAlias

from shardlint.output.printable import make_printable, printable_lines
from shardlint.verify.texts import size_text

_VOID = {"meta", "input", "br", "hr"}


class Html(str):
    """Markup: what was text in it is escaped already."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"


def escape_html(text: str) -> Html:
    """Text as markup, its control characters made visible; newlines stay."""
    return Html(html.escape(printable_lines(text) if "\n" in text else make_printable(text)))


def render_element(tag: str, *children: Child, **attributes: Any) -> Html:
    """One element. Children that are not `Html` are escaped; None is left out, and other iterables are flattened.

    Of attribute names, `class_` is `class` and `aria_label` is `aria-label`; True is a bare attribute, None and
    False none at all.
    """
    if tag in ("script", "style") or any(name.startswith("on") or name == "style" for name in attributes):
        raise ValueError(f"<{tag} {' '.join(attributes)}>: scripts and styles belong in page.js and page.css")
    pieces = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        shown = name.rstrip("_").replace("_", "-")
        # The names XML has in capitals are few, and all of them of pictures.
        shown = "viewBox" if shown == "viewbox" else shown
        pieces.append(f" {shown}" if value is True else f' {shown}="{escape_html(str(value))}"')
    pieces.append(">")
    if tag not in _VOID:
        pieces += [*_flatten_children(children), f"</{tag}>"]
    return Html("".join(pieces))


def join_html(children: Iterable[Child], between: str = "") -> Html:
    """Several children in a row."""
    return Html(escape_html(between).join(_flatten_children(children)))


def _flatten_children(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str):
            yield escape_html(child)
        elif child is not None:
            yield from _flatten_children(child)


@dataclass(frozen=True)
class Column:
    """A column of a table; `number` aligns it right and sorts it by `Cell.sort`, largest first."""

    title: str
    number: bool = False
    help: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell: what is shown, what it sorts by where that differs (a number), and a class of page.css."""

    shown: Child
    sort: float | None = None
    class_: str = ""
    title: str = ""


def render_table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    caption: str = "",
    class_: str = "",
    row_classes: Sequence[str] = (),
    sorted_by: int | None = None,
    long: bool = False,
) -> Html:
    """A table whose headers sort it. `sorted_by` is the column its rows already are sorted by, largest first; a
    `long` one scrolls in a window of its own.
    """
    head = [
        render_element(
            "th",
            column.title,
            scope="col",
            class_="number" if column.number else None,
            title=column.help or None,
            aria_sort="descending" if index == sorted_by else None,
        )
        for index, column in enumerate(columns)
    ]
    body = []
    for index, row in enumerate(rows):
        cells = [
            render_element(
                "td",
                cell.shown,
                class_=" ".join(part for part in ("number" if column.number else "", cell.class_) if part)
                or None,
                data_sort=None
                if cell.sort is None
                else f"{cell.sort:g}"
                if cell.sort % 1
                else str(int(cell.sort)),
                title=cell.title or None,
            )
            for column, cell in zip(columns, row, strict=True)
        ]
        body.append(render_element("tr", cells, class_=(row_classes[index] or None) if row_classes else None))
    inner = render_element(
        "table",
        render_element("caption", caption) if caption else None,
        render_element("thead", render_element("tr", head)),
        render_element("tbody", body),
        class_=f"sortable {class_}".strip(),
    )
    # A region that scrolls must be reachable by keyboard.
    window = "scroll long" if long else "scroll"
    return render_element("div", inner, class_=window, tabindex="0", role="region", aria_label=caption or "table")


def size_cell(count: int) -> Cell:
    """A cell of bytes: a unit for the reader, the number to sort by, all digits on hovering."""
    return Cell(size_text(count), count, title=f"{count:,} bytes")


def number_cell(number: int | float | None) -> Cell:
    """A cell of a number; None is shown as unknown and sorts as the smallest."""
    return Cell("?", -1, title="not known") if number is None else Cell(f"{number:,}", number)


def render_status(word: str) -> Html:
    """A status, `pass`, `fail` or `skip`, told by colour and by word."""
    return render_element(
        "span", word.upper(), class_=f"status {word if word in ('pass', 'fail', 'skip') else 'skip'}"
    )


def render_code(text: str) -> Html:
    """Text in the fixed-width type."""
    return render_element("code", text)


def render_share(part: float, whole: float) -> Html:
    """A small bar: `part` of `whole`."""
    width = round(100 * part / whole) if whole else 0
    return render_element(
        "svg",
        render_element("rect", width=width, height=8, rx=2),
        class_="share",
        viewbox="0 0 100 8",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def render_document(title: str, body: Iterable[Child], *, verdict: Child = None, footer: Child = None) -> str:
    """The whole page. `verdict` stands beside the title, `body` are sections, `footer` the small print."""
    css, script = _read_asset("page.css"), _read_asset("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash_source(css)}; script-src {_hash_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = join_html(
        [
            render_element("meta", charset="utf-8"),
            # Not by `element`: the quotes of the policy must stay quotes, and they are ours.
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            render_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            render_element("meta", name="color-scheme", content="light dark"),
            render_element("meta", name="generator", content="shardlint"),
            render_element("title", title),
            Html(f"<style>{css}</style>"),
        ],
        "\n",
    )
    page = join_html(
        [
            render_element("a", "Skip to the report", href="#main", class_="skip-link"),
            render_element(
                "header",
                render_element("h1", title),
                verdict,
                render_element("div", id="tools"),
                class_="top",
            ),
            render_element("main", body, id="main"),
            render_element("footer", footer) if footer else None,
        ],
        "\n",
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{page}\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _read_asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash_source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
