"""Bytes of a file as its source."""

from __future__ import annotations

import codecs
import io
import tokenize
from pathlib import Path

from shardlint.source.text import NOTEBOOKS, Source, Unreadable, check_size, check_text

# Python itself needs hours for a megabyte in these.
_NOT_FOR_SOURCE = ("punycode", "idna")
# These say a text in one way only.
_ONE_WAY = ("utf-8", "iso-8859-1", "ascii")


def decode_file(path: Path, data: bytes) -> Source:
    """Decode a file as Python would: byte order mark, then coding cookie, then UTF-8. A notebook is its cells' code.

    Raises `Unreadable` for undecodable bytes, an unknown or contradictory cookie, NUL bytes and files above
    `MAX_BYTES`, and for halves of characters, which no encoding says.
    """
    if path.suffix in NOTEBOOKS:
        from shardlint.source.notebook import read_notebook  # few files are notebooks

        return read_notebook(path, data)
    check_size(len(data))
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise Unreadable(f"line {line} contains a NUL byte, so this is not Python source")
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise Unreadable(f"cannot tell the encoding: {error.msg}") from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    if encoding in _NOT_FOR_SOURCE:
        raise Unreadable(f"the coding cookie names {encoding}, which is not a text encoding")
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"line {line} is not {encoding} (byte 0x{body[error.start]:02x}); save it as UTF-8 or add a coding cookie"
        ) from None
    except LookupError:
        raise Unreadable(f"unknown encoding {encoding!r} in the coding cookie") from None
    except UnicodeError as error:  # codecs with errors of their own
        raise Unreadable(f"cannot be read as {encoding}: {error}") from None
    check_text(text)
    return Source(path, text, encoding, bom, encoding in _ONE_WAY or _encodes_back(text, encoding, body))


def _encodes_back(text: str, encoding: str, body: bytes) -> bool:
    try:
        return text.encode(encoding) == body
    except UnicodeError:
        return False
