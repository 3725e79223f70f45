"""What of a text is code: without comments, blank lines and blanks at the ends of lines."""

from __future__ import annotations

import re

from shardlint.source.patterns import regex

_STRING = (
    rb'"""(?:[^\\"]++|\\.|"(?!""))*+"""'
    rb"|'''(?:[^\\']++|\\.|'(?!''))*+'''"
    rb'|"(?:[^"\\\n]++|\\.)*+"'
    rb"|'(?:[^'\\\n]++|\\.)*+'"
)
# Strings and one newline of many are kept.
_PARTS = regex(
    rb"(" + _STRING + rb")|(\n)(?:[ \t]*+(?:#[^\n]*+)?\n)++|[ \t]++(?:#[^\n]*+)?(?=\n|\Z)|#[^\n]*+", re.DOTALL
)
# From Python 3.12 on an f-string may hold its own quotes: a `#` that follows on the line may be in it or not.
_NESTED = regex(rb"""\b(?:[fFtT][rR]?|[rR][fFtT])(["'])[^\n]*\{[^}\n]*\1[^\n]*#""")


def code_of(data: bytes) -> bytes:
    """The code of a text: where two texts have the same, they parse to the same tree, places aside.

    All of a text that says how it is encoded, or whose strings cannot be told from comments so simply.
    """
    data = data.replace(b"\r\n", b"\n")
    if b"coding" in data[:200] or b"\r" in data or b"\f" in data or _NESTED.search(data):
        return data
    return _PARTS.sub(rb"\1\2", data).strip(b"\n")
