"""SVG pictures of the documentation: device layouts as the HTML reports draw them, and a terminal."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from shardlint.verify.html.layout import Axes, Grid
from shardlint.verify.html.page import Html, render_element

_CARD, _SCALE, _MARGIN = 330, 1.7, 20
_COLUMNS, _LINE, _CHARACTER = 96, 19, 7.83
_SECONDS = 1.6  # between two commands of a terminal

LAYOUT_STYLE = """
text { font-family: system-ui, sans-serif; fill: #1f2328; }
.card { fill: #ffffff; stroke: #d0d7de; }
.title { font: 600 17px ui-monospace, monospace; }
.words { font-size: 14px; fill: #59636e; }
.cell { stroke: #ffffff; stroke-width: 1.5; }
.cell.empty { fill: #f6f8fa; stroke: #d0d7de; }
.in-cell { font: 10px ui-monospace, monospace; fill: #14171b; text-anchor: middle; }
.by-cell { font-size: 10px; fill: #59636e; }
.by-cell.name { font-weight: 600; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
@media (prefers-color-scheme: dark) {
  text, .by-cell.name { fill: #e6edf3; }
  .words, .by-cell { fill: #9198a1; }
  .card { fill: #0d1117; stroke: #3d444d; }
  .cell { stroke: #0d1117; }
  .cell.empty { fill: #151b23; stroke: #3d444d; }
}
"""
TERMINAL_STYLE = """
.window { fill: #0d1117; stroke: #3d444d; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d1d7e0; }
.command { fill: #ffffff; font-weight: 600; }
.finding { fill: #ff9492; }
.caret { fill: #f0b72f; }
.write, .fixed, .layout { fill: #4ac26b; }
@media (prefers-reduced-motion: no-preference) {
  .step { animation: appear .2s both; }
  @keyframes appear { from { opacity: .3; } to { opacity: 1; } }
}
"""


@dataclass(frozen=True)
class Card:
    """An array on a mesh: a title, and the mesh axes of each dimension (None: it is on one device)."""

    title: str
    axes: Axes | None


def layout_picture(mesh: Mapping[str, int], cards: Sequence[Card]) -> str:
    """Cards side by side, each with the devices of the mesh in the colour of the part that they hold."""
    grids = [Grid(mesh, card.axes) for card in cards]
    height = 118 + max(grid.picture_size()[1] for grid in grids) * _SCALE + 44
    drawn = [
        _draw_card(card, grid, number, height)
        for number, (card, grid) in enumerate(zip(cards, grids, strict=True))
    ]
    width = len(cards) * (_CARD + _MARGIN) - _MARGIN
    words = "; ".join(
        f"{card.title}: {_describe_card(card, grid)}" for card, grid in zip(cards, grids, strict=True)
    )
    return _svg_document(width, height, LAYOUT_STYLE, drawn, words)


def _draw_card(card: Card, grid: Grid, number: int, height: float) -> Html:
    left = number * (_CARD + _MARGIN)
    frame = render_element("rect", x=0.5, y=0.5, width=_CARD - 1, height=f"{height - 1:g}", rx=8, class_="card")
    title = render_element("text", card.title, x=18, y=32, class_="title")
    words = [
        render_element("text", line, x=18, y=53 + 17 * index, class_="words")
        for index, line in enumerate(textwrap.wrap(_describe_card(card, grid), 40))
    ]
    devices = [*grid.render_devices(), *grid.render_numbers(), *grid.render_labels()]
    placed = render_element("g", devices, transform=f"translate({74 * _SCALE + 18:g} 146) scale({_SCALE})")
    return render_element("g", frame, title, words, placed, transform=f"translate({left} 0)")


def _describe_card(card: Card, grid: Grid) -> str:
    return "on one device; " + grid.describe_picture() if card.axes is None else grid.describe_picture()


def terminal_picture(lines: Sequence[str]) -> str:
    """A terminal in which each command (`$ ...`) and its output light up in turn."""
    drawn, step, row = [], -1, 0
    for line in lines:
        step += line.startswith("$ ")
        style = _line_style(line)
        for part in _wrap_line(line):
            delay = f"animation-delay:{step * _SECONDS + (0 if style == 'command' else _SECONDS / 2):.1f}s"
            drawn.append(
                Html(
                    f'<text x="18" y="{34 + row * _LINE}" class="step {style}" style="{delay}" xml:space="preserve">'
                )
                + render_element("tspan", part)
                + Html("</text>")
            )
            row += 1
    return _window_document(_COLUMNS, row, [*map(Html, drawn)], "shardlint in a terminal")


def explained_picture(lines: Sequence[str]) -> str:
    """Lines of `shardlint explain FILE`: code, with the layouts of its arrays at the ends of lines."""
    parts = [re.split(r"\s{2,}(?=\w+: \w+\[)", line.rstrip(), maxsplit=1) for line in lines]
    column = max(len(code) for code, *_ in parts) + 3
    drawn = [
        render_element(
            "text",
            render_element("tspan", code.ljust(column)),
            [render_element("tspan", one, class_="layout") for one in layout],
            **{"x": 18, "y": 34 + row * _LINE, "xml:space": "preserve"},
        )
        for row, (code, *layout) in enumerate(parts)
    ]
    columns = column + max(len(layout[0]) for _, *layout in parts if layout)
    return _window_document(columns, len(lines), drawn, "layouts beside the code")


def _window_document(columns: int, rows: int, lines: Sequence[Html], words: str) -> str:
    """Lines of text in a window of a terminal."""
    height, width = 34 + rows * _LINE, columns * _CHARACTER + 36
    window = render_element("rect", x=0.5, y=0.5, width=f"{width - 1:g}", height=height - 1, rx=8, class_="window")
    return _svg_document(width, height, TERMINAL_STYLE, [window, *lines], words)


def _wrap_line(line: str) -> Iterator[str]:
    yield from textwrap.wrap(line, _COLUMNS, subsequent_indent="     ") or [""]


def _line_style(line: str) -> str:
    text = line.strip()
    for beginning, style in (("$ ", "command"), ("Write", "write"), ("| ", "caret")):
        if text.startswith(beginning):
            return style
    return (
        "finding"
        if re.match(r"\S+:\d+:\d+: ", text)
        else "fixed"
        if text.startswith("No findings")
        else "plain"
    )


def _svg_document(width: float, height: float, style: str, children: Sequence[Html], words: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">'
    body = "\n".join(children)
    return f"{head}\n{render_element('title', words)}\n<style>{style}</style>\n{body}\n</svg>\n"
