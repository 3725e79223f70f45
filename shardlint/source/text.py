"""One file's text, with everything needed to write it back byte for byte."""

from __future__ import annotations

import codecs
import itertools
import operator
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.source.regular_files import NotRegular, TooLarge, read_regular

# What the Python tokenizer calls the end of a line; str.splitlines also splits on form feeds and U+2028.
_NEWLINE = compile_lazily(r"\r\n|\r|\n")
HALF = compile_lazily(r"[\ud800-\udfff]")
_WIDE = compile_lazily(r"[^\x00-\x7f][^\r\n]*")

NOTEBOOKS = (".ipynb", ".md")
"""How names of notebooks end; Markdown is one where its header says so."""
MAX_BYTES = 8_000_000
NOTEBOOK_BYTES = 64_000_000
"""The limit of a notebook with its outputs; its code has the limit of other sources."""
# For a few positions, counting lines is faster than looking where every line starts.
_COUNTED = 8


class Unreadable(Exception):
    """A file that cannot be checked; the message is one line that says why and what to do."""


@dataclass(frozen=True, eq=False)
class Source:
    """A decoded file.

    Lines count from 1. Columns here are character offsets counted from 0, except where a name says `utf8`:
    the `ast` module counts bytes of the UTF-8 form.
    """

    path: Path
    text: str
    encoding: str = "utf-8"
    bom: bool = False
    in_cells: ClassVar[bool] = False
    """Whether it is a notebook, whose places are in cells."""

    exact: bool = True
    """Whether encoding the text gives the bytes that were read; UTF-7 has many ways to say the same."""

    @cached_property
    def line_starts(self) -> list[int]:
        """Character offset of the start of every line."""
        if not self._has_plain_newlines:
            return [0, *(match.end() for match in _NEWLINE.finditer(self.text))]
        ends = itertools.accumulate(map(len, self.text.split("\n")[:-1]))
        return [0, *map(operator.add, ends, itertools.count(1))]

    @cached_property
    def _has_plain_newlines(self) -> bool:
        """True if lines end with newlines only, so that they can be counted."""
        return "\r" not in self.text

    @cached_property
    def _request_numbers(self) -> Iterator[int]:
        return itertools.count()

    @cached_property
    def common_newline(self) -> str:
        """The newline that most lines end with (`"\\n"` when there is none)."""
        crlf = self.text.count("\r\n")
        counts = {"\n": self.text.count("\n") - crlf, "\r\n": crlf, "\r": self.text.count("\r") - crlf}
        best = max(counts, key=lambda newline: counts[newline])
        return best if counts[best] else "\n"

    @cached_property
    def _wide_lines(self) -> frozenset[int]:
        """The lines that hold what takes more than one byte."""
        found = () if self.text.isascii() else _WIDE.finditer(self.text)
        return frozenset(bisect_right(self.line_starts, one.start()) for one in found)

    def line_text(self, number: int) -> str:
        """The text of a line, without its newline."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def shown_line_at(self, offset: int) -> tuple[str, int]:
        """The line that a character is on as people see it, and how many characters stand before that in the text."""
        return self.line_text_at(offset), 0

    def line_text_at(self, offset: int) -> str:
        """The text of the line that a character is on, without its newline."""
        if self._has_plain_newlines:
            end = self.text.find("\n", offset)
            return self.text[self.text.rfind("\n", 0, offset) + 1 : end if end >= 0 else len(self.text)]
        return self.line_text(self.position_of(offset)[0])

    def offset_of(self, line: int, utf8_column: int) -> int:
        """Character offset in the text of a position as the `ast` module gives it."""
        start = self.line_starts[line - 1]
        if line not in self._wide_lines:
            return start + utf8_column
        return start + len(self.line_text(line).encode("utf-8")[:utf8_column].decode("utf-8", "ignore"))

    def position_of(self, offset: int) -> tuple[int, int]:
        """Line and column, both counted from 1, of a character offset."""
        if (
            self._has_plain_newlines
            and "line_starts" not in self.__dict__
            and next(self._request_numbers) < _COUNTED
        ):
            return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def locate_offset(self, offset: int) -> tuple[int | None, int, int]:
        """Where a character is for people: the cell (None in what has no cells), the line and the column."""
        return None, *self.position_of(offset)

    def line_of(self, cell: int | None, line: int) -> int | None:
        """The line of the text that people call by a cell and a line; None where there is none."""
        return line if cell is None else None

    def translate_message(self, message: str) -> str:
        """A message about the file, with the places that people see."""
        return message

    def translate_message_of_other(self, message: str) -> str:
        """A message about another file, with the places in this one that people see."""
        return message

    def with_text(self, text: str) -> Source:
        """The same file with other text."""
        return Source(self.path, text, self.encoding, self.bom, self.exact)

    def encode_file(self) -> bytes:
        """The bytes to write: same encoding and byte order mark as were read.

        Raises `Unreadable` when new text cannot be said in the file's own encoding.
        """
        try:
            data = self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Unreadable(
                f"the fixed text cannot be written in the file's encoding {self.encoding}: {error}"
            ) from None
        return codecs.BOM_UTF8 + data if self.bom else data


def check_text(text: str) -> str:
    """The text itself. Raises `Unreadable` where it holds half of a character, which Python refuses too."""
    half = HALF.search(text) if not text.isascii() else None
    if half is not None:
        line = text.count("\n", 0, half.start()) + 1
        raise Unreadable(f"line {line} contains half of a character (U+{ord(half[0]):04X}), so this is not "
                         "Python source")
    return text


def check_size(size: int) -> None:
    """Raise `Unreadable` for a source with more bytes or characters than `MAX_BYTES`."""
    if size > MAX_BYTES:
        raise Unreadable(f"the file has {size:,} bytes, and the limit is {MAX_BYTES:,}")


def size_limit(path: Path) -> int:
    """The size in bytes up to which a file is read."""
    return NOTEBOOK_BYTES if path.suffix == ".ipynb" else MAX_BYTES


def read_bytes(path: Path, named: bool = False) -> bytes:
    """Read a file. Raises `Unreadable` when it is missing, a directory, a device, not permitted, or huge.

    A pipe is read where the command line may have `named` it, as `<(command)` does.
    """
    try:
        if named and path.is_fifo():
            with path.open("rb") as stream:
                return stream.read(MAX_BYTES + 1)
        return read_regular(path, size_limit(path))
    except (TooLarge, NotRegular) as error:
        raise Unreadable(error.strerror or "") from None
    except IsADirectoryError:
        raise Unreadable("is a directory, not a file") from None
    except PermissionError:
        if path.is_dir():  # what Windows raises for a directory
            raise Unreadable("is a directory, not a file") from None
        raise Unreadable("permission denied") from None
    except FileNotFoundError:
        raise Unreadable("no such file") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot be read: {error}") from None
