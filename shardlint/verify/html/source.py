"""Source lines with what they cost beside them."""

from __future__ import annotations

import io
import keyword
import math
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shardlint.output.printable import make_printable
from shardlint.verify.facts import Line
from shardlint.verify.html.page import Html, escape_html, join_html, render_element
from shardlint.verify.lines import Lines
from shardlint.verify.texts import size_text
from shardlint.verify.working_directory import shown_path

_AROUND = 3
_FILES = 12
_SHOWN = 300
_WIDTH = 240


@dataclass
class Cost:
    """Cost of one line: the bytes it moves in one call, and each reason in words."""

    moved: int = 0
    why: list[str] = field(default_factory=list)


class Costs:
    """Costs by line."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, int], Cost] = {}

    def add_cost(self, line: Line, why: str, moved: int = 0) -> None:
        """Count something against a line; without a line it is left out."""
        if line.file and line.line > 0:
            cost = self.lines.setdefault((line.file, line.line), Cost())
            cost.moved += moved
            if why not in cost.why:
                cost.why.append(why)


def render_listing(costs: Costs, sources: Lines, prefix: str) -> Html | None:
    """The lines that cost something with those around them, a table a file, the dearest file first.

    Only Python files are read, of at most `lines.READ_MAX` bytes. A line's id is `line_id(prefix, line)`.
    """
    if not costs.lines:
        return None
    most = max(cost.moved for cost in costs.lines.values())
    files: dict[str, dict[int, Cost]] = {}
    for (file, number), cost in costs.lines.items():
        files.setdefault(file, {})[number] = cost
    dearest = sorted(files, key=lambda file: (-sum(cost.moved for cost in files[file].values()), file))
    shown = [_render_file(file, files[file], sources.lines_of_file(file), most, prefix) for file in dearest[:_FILES]]
    if len(dearest) > _FILES:
        rest = sum(cost.moved for file in dearest[_FILES:] for cost in files[file].values())
        shown.append(
            render_element(
                "p", f"{len(dearest) - _FILES} other files move {size_text(rest)} in all.", class_="quiet"
            )
        )
    return join_html(shown)


def line_id(prefix: str, line: Line) -> str:
    """The id of a line in a listing."""
    return f"{prefix}-{line.file}:{line.line}"


def _render_file(file: str, costs: Mapping[int, Cost], lines: Sequence[str], most: int, prefix: str) -> Html:
    total = sum(cost.moved for cost in costs.values())
    rows: list[Html] = []
    if not lines:
        rows = [
            _source_row(file, number, escape_html(""), costs[number], most, prefix)
            for number in sorted(costs)
        ]
    else:
        marked = _highlight_lines(lines)
        last = 0
        for number in _line_windows(costs, len(lines)):
            if len(rows) >= _SHOWN:
                rows.append(_gap_row(f"… more lines are not shown (the first {_SHOWN} are)"))
                break
            if number != last + 1:
                rows.append(_gap_row("⋯"))
            rows.append(_source_row(file, number, marked[number - 1], costs.get(number), most, prefix))
            last = number
        for number in sorted(number for number in costs if number > len(lines)):
            rows.append(
                _source_row(
                    file,
                    number,
                    escape_html("(past the end of the file as it is now)"),
                    costs[number],
                    most,
                    prefix,
                )
            )
    caption = f"{shown_path(file)}: {size_text(total)} moved in one call"
    if not lines:
        caption += "; its source could not be read"
    body = render_element("table", render_element("caption", caption), render_element("tbody", rows), class_="source")
    return render_element("div", body, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _line_windows(costs: Mapping[int, Cost], count: int) -> Iterator[int]:
    wanted = {
        near
        for number in costs
        for near in range(number - _AROUND, number + _AROUND + 1)
        if 0 < near <= count and number <= count
    }
    return iter(sorted(wanted))


def _gap_row(text: str) -> Html:
    return render_element("tr", render_element("td", text, colspan="4"), class_="gap")


def _source_row(file: str, number: int, text: Html, cost: Cost | None, most: int, prefix: str) -> Html:
    heat = ""
    if cost and cost.moved and most:
        # By the logarithm over four powers of ten: a line of a thousandth of the bytes is still worth seeing.
        heat = f"h{max(1, min(5, 5 + round(math.log10(cost.moved / most) * 1.2)))}"
    return render_element(
        "tr",
        render_element("td", size_text(cost.moved) if cost and cost.moved else "", class_="moved"),
        render_element("td", str(number), class_="at"),
        render_element("td", text),
        render_element("td", "; ".join(cost.why) if cost else "", class_="why"),
        class_=heat or None,
        id=line_id(prefix, Line(file, number)) if cost else None,
    )


def _highlight_lines(lines: Sequence[str]) -> list[Html]:
    """Lines as markup, with keywords, strings and comments told apart where Python can read them."""
    marks: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            kind = _token_class(token)
            if kind:
                (first, start), (last, end) = token.start, token.end
                for number in range(first, last + 1):
                    begin = start if number == first else 0
                    stop = end if number == last else len(lines[number - 1])
                    marks.setdefault(number, []).append((begin, stop, kind))
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # what was read until there is coloured, the rest is plain
    return [_mark_line(line, marks.get(number, ())) for number, line in enumerate(lines, 1)]


def _token_class(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.COMMENT:
        return "c"
    if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
        return "s"
    if token.type == tokenize.NAME and (keyword.iskeyword(token.string)):
        return "k"
    return ""


def _mark_line(line: str, marks: Sequence[tuple[int, int, str]]) -> Html:
    pieces: list[Html] = []
    at = 0
    for start, stop, kind in marks:
        if start < at or start >= _WIDTH:
            continue
        pieces.append(_escape_text(line[at:start]))
        pieces.append(render_element("span", _escape_text(line[start : min(stop, _WIDTH)]), class_=kind))
        at = min(stop, _WIDTH)
    pieces.append(_escape_text(line[at:_WIDTH]))
    if len(line) > _WIDTH:
        pieces.append(Html("…"))
    return join_html(pieces)


def _escape_text(text: str) -> Html:
    return escape_html(make_printable(text.replace("\t", "    ")))
