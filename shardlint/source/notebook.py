"""Notebooks as sources: the code of the cells in order is one Python text, with a line between cells.

Everything that reads or rewrites Python sees only that text. `place` tells the cell and the line in it, and `encode`
puts what changed back into the cells it is of; all else of the file stays byte for byte as it was.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from shardlint.source.lazy import dataclass
from shardlint.source.magics import (
    convert_to_python,
    first_indentation,
    remove_indent,
    restore_indent,
    restore_notebook_code,
    split_cell_lines,
)
from shardlint.source.other_formats import says_jupytext
from shardlint.source.patterns import compile_lazily
from shardlint.source.text import NOTEBOOKS, Source, Unreadable, check_size, check_text, read_bytes
from shardlint.source.unparsed_cells import (
    LeftOut,
    find_unparsable_cells,
    original_cell_code,
    parse_problem,
    placeholder_code,
)

# `# %%` is how scripts that are notebooks begin a cell, and so what rules know one by.
BORDER = compile_lazily(r"\n# %% cell \d+\n")
_BORDER_LINE = compile_lazily(r"# %% cell \d+")
_BLANK = compile_lazily(r"[ \t\r\n]*")
_LINE = compile_lazily(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE = compile_lazily(r"(?m)^(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)\n(?P<body>(?:.*\n)*?)(?P=fence)[ \t]*\r?$")
_OPTIONS = compile_lazily(r"\A(?:---\r?\n(?:.*\r?\n)*?---\r?\n|(?:[ \t]*:[\w-]+:.*\r?\n)+)?(?:[ \t]*\r?\n)*")
_SAID = compile_lazily(r"\blines? (\d+)\b((?:(?:, | and | to )\d+\b)*)(?! of )")
_LINE_OF = compile_lazily(r"\bline \d+")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Cell:
    """A cell with code: its number among all cells, what of the file holds its code, and the code."""

    number: int
    start: int
    end: int
    code: str

    @cached_property
    def first_indentation(self) -> str:
        """Return the indentation of its first line, which IPython removes from all lines that begin with it."""
        return first_indentation(self.code)

    @cached_property
    def code_lines(self) -> list[str]:
        """The lines of its code."""
        return split_cell_lines(self.code)


@dataclass(frozen=True, eq=False)
class Notebook(Source):
    """A notebook. `text` is the Python text, `raw` the file's own."""

    raw: str = ""
    cells: tuple[Cell, ...] = ()
    unparsed: tuple[tuple[int, LeftOut], ...] = ()
    """The cells that cannot be parsed, by their index among those with code: the others are checked without them."""

    in_cells = True

    def with_text(self, text: str) -> Notebook:
        """The same notebook with another Python text."""
        return replace(self, text=text)

    def locate_offset(self, offset: int) -> tuple[int | None, int, int]:
        """The cell of a character, its line in the cell and its column."""
        line, column = self.position_of(offset)
        cell, within = self.cell_of_line(line)
        return cell, within, column + self.extra_indentation(line)

    def extra_indentation(self, line: int) -> int:
        """By how much a line of the text is indented further in its cell."""
        index = bisect_right(self._first_lines, line) - 1
        cell = self.cells[index] if index < len(self.cells) else None
        if cell is not None and index in dict(self.unparsed):
            within = min(line - self._first_lines[index], len(cell.code_lines) - 1)
            return len(cell.code_lines[within]) - len(self.line_text(line))
        if cell is None or not cell.first_indentation or not self.line_text(line).strip():
            return 0
        within = line - self._first_lines[index]
        whole = within >= len(cell.code_lines) or cell.code_lines[within].startswith(cell.first_indentation)
        return len(cell.first_indentation) if whole else 0

    def shown_line_at(self, offset: int) -> tuple[str, int]:
        """The line of a cell; of one that was left out, without what stands for it in the text."""
        line = self.position_of(offset)[0]
        index = bisect_right(self._first_lines, line) - 1
        if index >= len(self.cells) or index not in dict(self.unparsed):
            return super().shown_line_at(offset)
        lines = self.cells[index].code_lines
        text = lines[min(line - self._first_lines[index], len(lines) - 1)]
        return text, len(self.line_text(line)) - len(text)

    def cell_of_line(self, line: int) -> tuple[int, int]:
        """The cell of a line, and the line in it."""
        index = bisect_right(self._first_lines, line) - 1
        number = self.cells[index].number if index < len(self.cells) else 1
        return number, line - self._first_lines[index] + 1

    def line_of(self, cell: int | None, line: int) -> int | None:
        """The line of the text that a line of a cell is; None where there is none."""
        for first, one in zip(self._first_lines, self.cells, strict=False):
            if one.number == cell and 1 <= line <= len(one.code_lines):
                return first + line - 1
        return None

    def unparsable_cells(self) -> Iterator[tuple[int, int, str]]:
        """The cells that cannot be parsed: where Python stopped in the text, the cell's number, and why."""
        for index, why in self.unparsed:
            cell, first = self.cells[index], self._first_lines[index]
            line = first + min(why.line, len(cell.code_lines)) - 1
            start = self.line_starts[line - 1]
            start += len(self.line_text(line)) - len(cell.code_lines[line - first])
            there = f"line {line - first + 1} of cell {cell.number}"
            yield start + why.column - 1, cell.number, _LINE_OF.sub(there, why.reason, count=1)

    @cached_property
    def _first_lines(self) -> list[int]:
        found = [1]
        for number in range(1, len(self.line_starts) + 1):
            if _BORDER_LINE.fullmatch(self.line_text(number)):
                found.append(number + 1)
        return found

    def translate_message(self, message: str) -> str:
        """A message with the cells and lines that people see."""

        def replace_line_number(match: re.Match[str]) -> str:
            numbers = re.findall(r"\d+", match[0])
            shown = [f"line {within} of cell {cell}" for cell, within in map(self.cell_of_line, map(int, numbers))]
            return " and ".join(shown)

        return self.translate_message_of_other(_SAID.sub(replace_line_number, message))

    def translate_message_of_other(self, message: str) -> str:
        """A message with the cells and lines that people see behind the notebook's name."""

        def replace_place_after(match: re.Match[str]) -> str:
            cell, within = self.cell_of_line(int(match[1]))
            return f"{self.path.name}:cell {cell}:{within}"

        def replace_place_before(match: re.Match[str]) -> str:
            cell, within = self.cell_of_line(int(match[1]))
            return f"line {within} of cell {cell} of {self.path.name}"

        name = re.escape(self.path.name)
        message = re.sub(rf"(?<![\w.-]){name}:(\d+)", replace_place_after, message)
        return re.sub(rf"\bline (\d+) of {name}(?![\w.-])", replace_place_before, message)

    def encode_file(self) -> bytes:
        """The bytes of the file. Raises `Unreadable` where a change goes over the border of cells."""
        parts = BORDER.split(self.text)
        if len(parts) != max(1, len(self.cells)):
            raise Unreadable("the fix would change the border of two cells")
        made, at = [], 0
        for cell, part in zip(self.cells, parts, strict=False):
            code = restore_indent(_restore_source(part), cell.first_indentation, cell.code)
            if code != cell.code:
                made += [self.raw[at : cell.start], _format_cell_source(self, cell, code)]
                at = cell.end
        data = "".join([*made, self.raw[at:]]).encode("utf-8")
        return codecs.BOM_UTF8 + data if self.bom else data


def program_text(path: Path, data: bytes) -> bytes | None:
    """The Python text of a file, for those who search it; None where a notebook cannot be read."""
    if not str(path).endswith(NOTEBOOKS):
        return data
    try:
        return read_notebook(path, data).text.encode("utf-8")
    except Unreadable:
        return None


def read_program(path: Path) -> bytes | None:
    """The Python text of a file on the disk; None where it cannot be read."""
    try:
        return program_text(path, read_bytes(path))
    except Unreadable:
        return None


@lru_cache(maxsize=2)
def read_notebook(path: Path, data: bytes) -> Notebook:
    """Read a notebook; the last ones are remembered, as one is screened before it is read. Raises `Unreadable`."""
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        raw = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"the file is not a notebook: byte {error.start} is not UTF-8") from None
    cells = tuple(_markdown_blocks(raw) if path.suffix == ".md" else _read_cells(raw))
    texts = [convert_to_python(remove_indent(cell.code, cell.first_indentation)) for cell in cells]
    text = check_text(_join_cells(cells, texts))
    check_size(len(text))
    unparsed = {} if parse_problem(text) is None else find_unparsable_cells(texts)
    if unparsed:
        texts = [placeholder_code(part) if index in unparsed else part for index, part in enumerate(texts)]
        text = _join_cells(cells, texts)
    parts = list(map(_restore_source, BORDER.split(text)))
    exact = not cells or (
        len(parts) == len(cells)
        and all(
            restore_indent(part, cell.first_indentation, cell.code) == cell.code
            for part, cell in zip(parts, cells, strict=True)
        )
    )
    return Notebook(path, text, bom=bom, exact=exact, raw=raw, cells=cells, unparsed=tuple(unparsed.items()))


def _join_cells(cells: tuple[Cell, ...], texts: list[str]) -> str:
    text = texts[0] if texts else ""
    for cell, part in zip(cells[1:], texts[1:], strict=True):
        text += f"\n# %% cell {cell.number}\n{part}"
    return text


def _restore_source(part: str) -> str:
    return restore_notebook_code(original_cell_code(part))


# notebooks as JSON


def _read_cells(raw: str) -> Iterator[Cell]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the file is not a notebook: {error}") from None
    if not isinstance(document, dict):
        raise Unreadable("the file is not a notebook: it contains no JSON object")
    if not isinstance(document.get("cells", document.get("worksheets")), list):
        raise Unreadable("the file is not a notebook: it has no list of cells")
    if not _is_python(document):
        return
    key = "source" if "cells" in document else "input"
    for number, (start, cell) in enumerate(_find_cells(raw, _skip_blanks(raw, 0)), 1):
        code = cell.get(key)
        if isinstance(code, list):
            code = "".join(part for part in code if isinstance(part, str))
        if cell.get("cell_type") == "code" and isinstance(code, str):
            where = {one.name: one for one in _object_members(raw, start)}[key]
            yield Cell(number, where.start, where.end, code)


def _is_python(document: dict[str, Any]) -> bool:
    about = document.get("metadata")
    about = about if isinstance(about, dict) else {}
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        said = about.get(key)
        language = said.get(name) if isinstance(said, dict) else None
        if isinstance(language, str) and language:
            return "python" in language.lower()
    return True


def _find_cells(raw: str, at: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The cells, and where they begin; those of worksheets (before format 4) too."""
    for one in _object_members(raw, at):
        if one.name in ("cells", "worksheets") and isinstance(one.value, list):
            for start, _, value in _array_elements(raw, one.start):
                if not isinstance(value, dict):
                    continue
                if one.name == "cells":
                    yield start, value
                else:
                    yield from _find_cells(raw, start)


class _Member(NamedTuple):
    """A member of an object: its name, where its value is, and the value."""

    name: str
    start: int
    end: int
    value: Any


def _object_members(raw: str, at: int) -> Iterator[_Member]:
    """The members of an object."""
    at = _skip_blanks(raw, at + 1)
    while raw[at] != "}":
        name, at = _DECODER.raw_decode(raw, at)
        start = _skip_blanks(raw, _skip_blanks(raw, at) + 1)
        value, end = _DECODER.raw_decode(raw, start)
        yield _Member(name, start, end, value)
        at = _skip_blanks(raw, end)
        at = _skip_blanks(raw, at + 1) if raw[at] == "," else at


def _array_elements(raw: str, at: int) -> Iterator[tuple[int, int, Any]]:
    """The elements of an array and where they are."""
    at = _skip_blanks(raw, at + 1)
    while raw[at] != "]":
        value, end = _DECODER.raw_decode(raw, at)
        yield at, end, value
        at = _skip_blanks(raw, end)
        at = _skip_blanks(raw, at + 1) if raw[at] == "," else at


def _skip_blanks(raw: str, at: int) -> int:
    match = _BLANK.match(raw, at)
    return match.end() if match is not None else at


def _format_cell_source(source: Notebook, cell: Cell, code: str) -> str:
    """Code as it is written in the file, in the way of the code that stood there."""
    if source.path.suffix == ".md":
        return code
    was, ascii_only = source.raw[cell.start : cell.end], source.raw.isascii()
    if not was.startswith("["):
        return json.dumps(code, ensure_ascii=ascii_only)
    spans = list(_array_elements(was, 0))
    known = {value: was[start:end] for start, end, value in spans}
    lines = [known.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in _LINE.findall(code)]
    if not lines:
        return "[]"
    if not spans:
        return f"[{', '.join(lines)}]"
    lead, tail = was[1 : spans[0][0]], was[spans[-1][1] : -1]
    between = was[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{lead}" if "\n" in lead else ", "
    return f"[{lead}{between.join(lines)}{tail}]"


# notebooks as Markdown (MyST, jupytext)


def _markdown_blocks(raw: str) -> Iterator[Cell]:
    if not says_jupytext(raw):
        raise Unreadable("it is text, not Python")
    number = 0
    in_myst = "{code-cell}" in raw  # where other blocks are there to be read only
    for match in _FENCE.finditer(raw):
        info = match["info"].strip()
        myst = info.startswith("{code-cell}")
        if not myst and (in_myst or info.split(" ")[0] not in ("python", "python3", "ipython3")):
            continue
        number += 1
        language = info.removeprefix("{code-cell}").strip().lower()
        if ".noeval" in info or (myst and language and "python" not in language):
            continue
        begin, end = match.span("body")
        options = _OPTIONS.match(raw[begin:end]) if myst else None
        begin += options.end() if options is not None else 0
        code = raw[begin:end].removesuffix("\n")
        if begin < end:
            yield Cell(number, begin, begin + len(code), code)
