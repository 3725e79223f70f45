"""Notebooks as editors have them: a text for each cell, and what is made of them as of a file on the disk."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import field
from functools import cached_property
from itertools import count
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris

from shardlint.server.texts import (
    Buffer,
    Encoding,
    apply_changes,
    editor_edits,
    editor_range,
    text_offset,
    whole_characters,
)
from shardlint.source.lazy import dataclass
from shardlint.source.magics import first_indentation, restore_indent, restore_notebook_code
from shardlint.source.notebook import BORDER, Notebook, read_notebook
from shardlint.source.text import Source

_TURNS = count(1)


@dataclass(frozen=True)
class Cell:
    """A cell: its text as an editor has it."""

    uri: str
    source: Source
    version: int | None
    code: bool
    """Whether it holds Python."""


@dataclass(frozen=True)
class CellsBuffer(Buffer):
    """A notebook as an editor has it: the text of all its code, and the cells that this is of."""

    cells: tuple[Cell, ...] = ()
    """All cells, in order."""

    @cached_property
    def code_cells(self) -> tuple[Cell, ...]:
        """Those with Python."""
        return tuple(cell for cell in self.cells if cell.code)

    @property
    def shown_documents(self) -> list[tuple[str, int | None]]:
        """The documents that an editor shows it as, and their versions."""
        return [(cell.uri, cell.version) for cell in self.code_cells]

    def locate_span(self, start: int, end: int, encoding: Encoding) -> tuple[str, lsp.Range]:
        """The cell and the place in it of some characters."""
        index = min(bisect_right(self._first_lines, self.source.position_of(start)[0]), len(self.code_cells)) - 1
        cell = self.code_cells[index]
        return cell.uri, editor_range(
            cell.source, self._offset_in_cell(index, start), self._offset_in_cell(index, end), encoding
        )

    def _offset_in_cell(self, index: int, at: int) -> int:
        """The character of a cell that a character of the text is; its end for one behind it."""
        line, column = self.source.position_of(at)
        column += self._indent_in_cell(line)
        starts, number = self.code_cells[index].source.line_starts, line - self._first_lines[index]
        if number >= len(starts):
            return len(self.code_cells[index].source.text)
        return starts[number] + min(column - 1, len(self.code_cells[index].source.line_text(number + 1)))

    def offset_at(self, uri: str, place: lsp.Position, encoding: Encoding) -> int:
        """The character of the text at a place of a cell."""
        index = next(index for index, cell in enumerate(self.code_cells) if cell.uri == uri)
        cell = self.code_cells[index].source
        line, column = cell.position_of(text_offset(cell, place, encoding))
        number = self._first_lines[index] + line - 1
        within = max(0, column - 1 - self._indent_in_cell(number))
        return self.source.line_starts[number - 1] + min(within, len(self.source.line_text(number)))

    def _indent_in_cell(self, line: int) -> int:
        """By how much a line of the text is indented further in its cell."""
        return self.source.extra_indentation(line) if isinstance(self.source, Notebook) else 0

    @cached_property
    def _first_lines(self) -> list[int]:
        """The lines of the text that the cells begin at."""
        firsts = [1]
        for cell in self.code_cells[:-1]:
            firsts.append(firsts[-1] + len(cell.source.line_starts) + 1)
        return firsts

    def edits_to(self, after: str, encoding: Encoding) -> list[tuple[str, int | None, list[lsp.TextEdit]]]:
        """Return the edits that turn the cells into those of another text, by the documents that change."""
        parts = zip(BORDER.split(after), self.code_cells, strict=True)
        codes = [
            restore_indent(restore_notebook_code(part), first_indentation(cell.source.text), cell.source.text)
            for part, cell in parts
        ]
        return [
            (cell.uri, cell.version, editor_edits(cell.source, code, encoding))
            for cell, code in zip(self.code_cells, codes, strict=True)
            if code != cell.source.text
        ]


@dataclass
class Open:
    """The notebooks that are open, and of which each cell is."""

    cells: dict[str, list[Cell]] = field(default_factory=dict)
    """By the notebook."""

    def open_notebook(self, params: lsp.DidOpenNotebookDocumentParams) -> CellsBuffer | None:
        """A notebook was opened."""
        uri = params.notebook_document.uri
        self.cells[uri] = _make_cells(params.notebook_document.cells, params.cell_text_documents)
        return self.notebook_buffer(uri)

    def change_notebook(self, params: lsp.DidChangeNotebookDocumentParams, encoding: Encoding) -> CellsBuffer | None:
        """Cells came, went, or were typed in."""
        uri = params.notebook_document.uri
        said = params.change.cells
        if uri not in self.cells or said is None:
            return None
        if said.structure is not None:
            array, known = said.structure.array, self.cells[uri]
            new = _make_cells(array.cells or [], said.structure.did_open or [], known)
            known[array.start : array.start + array.delete_count] = new
        for typed in said.text_content or []:
            self._apply_typing(uri, typed, encoding)
        return self.notebook_buffer(uri)

    def _apply_typing(
        self, uri: str, typed: lsp.NotebookDocumentCellContentChanges, encoding: Encoding
    ) -> None:
        for index, cell in enumerate(self.cells[uri]):
            if cell.uri == typed.document.uri:
                source = cell.source.with_text(
                    whole_characters(apply_changes(cell.source, typed.changes, encoding))
                )
                self.cells[uri][index] = Cell(cell.uri, source, typed.document.version, cell.code)

    def close_notebook(self, uri: str) -> None:
        """A notebook was closed."""
        self.cells.pop(uri, None)

    def notebook_buffer(self, uri: str) -> CellsBuffer | None:
        """The text of a notebook; None of one that is no file."""
        name = uris.to_fs_path(uri)
        if name is None or not name.endswith(".ipynb"):
            return None
        path = Path(os.path.realpath(name))
        cells = tuple(self.cells[uri])
        return CellsBuffer(uri, path, _join_cells(path, cells), next(_TURNS), cells)


def _make_cells(
    named: Iterable[lsp.NotebookCell], texts: Iterable[lsp.TextDocumentItem], cells: Iterable[Cell] = ()
) -> list[Cell]:
    items = {item.uri: item for item in texts}
    before = {cell.uri: cell for cell in cells}
    return [_make_cell(cell, items.get(cell.document), before.get(cell.document)) for cell in named]


def _make_cell(cell: lsp.NotebookCell, item: lsp.TextDocumentItem | None, known: Cell | None) -> Cell:
    if item is None:
        return known or Cell(cell.document, Source(Path(), ""), None, False)
    code = cell.kind == lsp.NotebookCellKind.Code and item.language_id == "python"
    return Cell(item.uri, Source(Path(), whole_characters(item.text)), item.version, code)


def _join_cells(path: Path, cells: Iterable[Cell]) -> Notebook:
    """The notebook that would be read if it was saved now."""
    written = [
        {"cell_type": "code" if cell.code else "markdown", "source": cell.source.text} for cell in cells
    ]
    return read_notebook(path, json.dumps({"cells": written}).encode())
