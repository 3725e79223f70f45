"""Text from somebody's files or programs, made safe to show. Nothing here imports anything."""

from __future__ import annotations


def make_printable(text: str) -> str:
    """Text with control characters made visible, so that nothing in a file name or source can steer a terminal.

    Of these are line ends, terminal escapes, marks that turn the direction of writing, and lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape_code(ord(c)) for c in text)


def printable_lines(text: str) -> str:
    """The same of several lines, which stay lines; a tab becomes blanks."""
    return "\n".join(make_printable(line.expandtabs(4)) for line in text.splitlines())


def _escape_code(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def as_sentence(text: str) -> str:
    """A text that begins as sentences do; code at its beginning stays as it is."""
    first = text.split(maxsplit=1)[0]
    return text if any(mark in first.rstrip(".:") for mark in "._([=") else text[0].upper() + text[1:]
