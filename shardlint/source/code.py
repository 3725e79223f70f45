"""Code of a text, without comments, blank lines and trailing blanks."""

from __future__ import annotations

import re

from shardlint.source.patterns import compile_lazily

# Nothing possessive: groups that are go wrong in `re` of Python 3.11.2.
_STRING = (
    rb'"""[^\\"]*(?:(?:\\.|"(?!""))[^\\"]*)*"""'
    rb"|'''[^\\']*(?:(?:\\.|'(?!''))[^\\']*)*'''"
    rb'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    rb"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
)
# Strings and one newline of many are kept.
_PARTS = compile_lazily(
    rb"(" + _STRING + rb")|(\n)(?:[ \t]*(?:#[^\n]*)?\n)+|(?<![ \t])[ \t]+(?:#[^\n]*)?(?=\n|\Z)|#[^\n]*", re.DOTALL
)
_F_STRING = compile_lazily(rb"""\b(?:[fFtT][rR]?|[rR][fFtT])(["'])""")


def code_of(data: bytes) -> bytes:
    """The code of a text: where two texts have the same, they parse to the same tree, places aside.

    All of a text that says how it is encoded, or whose strings cannot be told from comments so simply.
    """
    data = data.replace(b"\r\n", b"\n")
    if (
        b"coding" in data[:200]
        or b"\r" in data
        or b"\f" in data
        or any(map(_nests_quotes, data.split(b"\n")))
    ):
        return data
    return _PARTS.sub(rb"\1\2", data).strip(b"\n")


def _nests_quotes(line: bytes) -> bool:
    """Return whether an f-string may contain its own quotes, as from Python 3.12 on, so that it is unclear if a `#` is
    in it.
    """
    if b"#" not in line or b"{" not in line:
        return False
    quotes = set(_F_STRING.findall(line))
    held = [part.partition(b"}")[0] for part in line.split(b"{")[1:]]
    return any(quote in part for quote in quotes for part in held)
