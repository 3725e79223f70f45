"""Places in texts as the protocol counts them, and the edits between two texts."""

from __future__ import annotations

import difflib
import io
import os
import tokenize
from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris

from shardlint.source.lazy import dataclass
from shardlint.source.text import HALF, Source

Encoding = lsp.PositionEncodingKind | str
_UNIT = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@dataclass(frozen=True)
class Buffer:
    """A text as an editor has it."""

    uri: str
    path: Path
    """Absolute, links followed."""
    source: Source
    version: int | None

    @property
    def shown_documents(self) -> list[tuple[str, int | None]]:
        """The documents that an editor shows it as, and their versions."""
        return [(self.uri, self.version)]

    def locate_span(self, start: int, end: int, encoding: Encoding) -> tuple[str, lsp.Range]:
        """The document and the place in it of some characters."""
        return self.uri, editor_range(self.source, start, end, encoding)

    def offset_at(self, uri: str, place: lsp.Position, encoding: Encoding) -> int:
        """The character at a place of a document."""
        return text_offset(self.source, place, encoding)

    def edits_to(self, after: str, encoding: Encoding) -> list[tuple[str, int | None, list[lsp.TextEdit]]]:
        """Return the edits that turn it into another text, by the documents that change."""
        return [(self.uri, self.version, editor_edits(self.source, after, encoding))]


def make_buffer(uri: str, text: str, version: int | None) -> Buffer | None:
    """The text of a document; None of one that is no file, or no Python."""
    name = uris.to_fs_path(uri)
    if name is None or not name.endswith((".py", ".pyi")):
        return None
    path, text = Path(os.path.realpath(name)), whole_characters(text)
    return Buffer(uri, path, Source(path, text, _declared_encoding(text)), version)


def whole_characters(text: str) -> str:
    """The text of an editor with U+FFFD for each half of a character, which no file holds."""
    return text if text.isascii() else HALF.sub("\ufffd", text)


def _declared_encoding(text: str) -> str:
    """Return the encoding of the file: UTF-8, or the one declared in its first lines."""
    try:
        found, _ = tokenize.detect_encoding(io.BytesIO(text.encode("utf-8", "surrogatepass")).readline)
        text.encode(found)
    except (SyntaxError, UnicodeError, LookupError):
        return "utf-8"
    return "utf-8" if found == "utf-8-sig" else found


def editor_position(source: Source, offset: int, encoding: Encoding) -> lsp.Position:
    """Where a character of a text is."""
    line, column = source.position_of(min(offset, len(source.text)))
    start = source.line_starts[line - 1]
    return lsp.Position(line - 1, _encoded_units(source.text[start : start + column - 1], encoding))


def editor_range(source: Source, start: int, end: int, encoding: Encoding) -> lsp.Range:
    """The range of some characters."""
    return lsp.Range(editor_position(source, start, encoding), editor_position(source, end, encoding))


def text_offset(source: Source, place: lsp.Position, encoding: Encoding) -> int:
    """The character at a place; the end of its line where the line is shorter, of the text where it has fewer lines."""
    if place.line >= len(source.line_starts):
        return len(source.text)
    line = source.line_text(place.line + 1)
    codec, unit = _UNIT[str(getattr(encoding, "value", encoding))]
    before = line.encode(codec, "surrogatepass")[: place.character * unit].decode(codec, "ignore")
    return source.line_starts[place.line] + len(before)


def _encoded_units(text: str, encoding: Encoding) -> int:
    if text.isascii():
        return len(text)
    codec, unit = _UNIT[str(getattr(encoding, "value", encoding))]
    return len(text.encode(codec, "surrogatepass")) // unit


def editor_edits(before: Source, after: str, encoding: Encoding) -> list[lsp.TextEdit]:
    """Return the edits that turn one text into another, by lines."""
    old, new = before.text.splitlines(keepends=True), after.splitlines(keepends=True)
    ends = [0]
    for line in old:
        ends.append(ends[-1] + len(line))
    found = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind != "equal":
            where = editor_range(before, ends[first], ends[last], encoding)
            found.append(lsp.TextEdit(where, "".join(new[begin:end])))
    return found


def move_span(before: str, after: str, start: int, end: int) -> tuple[int, int] | None:
    """Where characters of a text are in another; None where what was written anew touches them."""
    if before == after:
        return start, end
    head = _common_prefix_length(before, after)
    tail = _common_prefix_length(before[head:][::-1], after[head:][::-1])
    if end <= head:
        return start, end
    if start >= len(before) - tail:
        shift = len(after) - len(before)
        return start + shift, end + shift
    return None


def _common_prefix_length(one: str, two: str) -> int:
    """How many characters two texts begin with that are the same."""
    first, last = 0, min(len(one), len(two))
    while first < last:
        middle = (first + last + 1) // 2
        first, last = (middle, last) if one[:middle] == two[:middle] else (first, middle - 1)
    return first


def apply_changes(
    source: Source, changes: Iterable[lsp.TextDocumentContentChangeEvent], encoding: Encoding
) -> str:
    """A text after what was typed. Not pygls' own, which takes a form feed for the end of a line."""
    for change in changes:
        if isinstance(change, lsp.TextDocumentContentChangePartial):
            start = text_offset(source, change.range.start, encoding)
            end = text_offset(source, change.range.end, encoding)
            text = source.text[:start] + change.text + source.text[end:]
        else:
            text = change.text
        source = source.with_text(text)
    return source.text
