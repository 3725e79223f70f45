"""`# shardlint: ignore[...]` comments: which findings they silence, and which silence nothing.

What stands in the brackets is a code (SL201), the beginning of some (SL2) or a rule's name (device-put-in-jit).
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import field

from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily

# The reason ends where another comment starts (one for ruff, say), but may name an issue ("#12").
_COMMENT = compile_lazily(
    r"#\s*shardlint:\s*(?P<kind>ignore-file|ignore-next-line|ignore)\b(?:\s*\[(?P<codes>[^\]]*)\])?(?P<reason>(?!#)(?:(?!\s#(?!\d)).)*|)"
)
# What stands where codes should, but not as they should.
_NEARLY_CODES = compile_lazily(r"-|\(|\s*\[|[\s:=(]*[A-Za-z]{2,}\d{3}\b")
_CODE = re.compile("[A-Za-z]{2,}[0-9]*")
_LAYOUT = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


@dataclass
class Suppression:
    """One comment. `codes` is empty when it names no rule and so silences all of them, unless it is `misspelt`.

    `first_line` is where the statement or header starts that the comment ends: formatters move a comment to the line
    of the closing bracket. Of `ignore-next-line` the two are the lines of the statement below.
    """

    line: int
    first_line: int
    offset: int
    end: int
    whole_file: bool
    codes: tuple[str, ...]
    reason: str
    misspelt: bool = False
    """Whether it seems to name rules, but not in brackets: it silences nothing."""
    kind: str = "ignore"
    used: set[str] = field(default_factory=set)
    """What of `codes` silenced something, or which rules' codes where there are none."""

    def silences_finding(self, code: str, name: str, first_line: int, last_line: int) -> bool:
        """Return whether a finding of a rule on these lines is silenced by this comment."""
        if self.misspelt or (self.codes and not any(selects_rule(said, code, name) for said in self.codes)):
            return False
        return self.whole_file or (first_line <= self.line and self.first_line <= last_line)

    def mark_used(self, code: str, name: str) -> None:
        """It silenced a finding of a rule."""
        self.used.update([said for said in self.codes if selects_rule(said, code, name)] or [code])


def is_code(said: str) -> bool:
    """Return whether a selector in a comment is a code or the beginning of one, not a name."""
    return _CODE.fullmatch(said) is not None


def selects_rule(said: str, code: str, name: str) -> bool:
    """Return whether a selector in a comment selects a rule: its code, the beginning of it, or its name."""
    if is_code(said):
        return code.startswith(said.upper())
    return said.lower() == name


def find_suppressions(text: str, line_starts: list[int]) -> list[Suppression]:
    """All suppression comments of a file; text inside strings does not count."""
    if "shardlint:" not in text:
        return []
    found = []
    comments, statements = _find_comments(text)
    for first_line, line, column, comment in comments:
        match = _COMMENT.search(comment)
        if match is None:
            continue
        codes = tuple(code.strip() for code in (match["codes"] or "").split(",") if code.strip())
        misspelt = match["codes"] is not None or _NEARLY_CODES.match(match["reason"]) is not None
        start = line_starts[line - 1] + column
        if match["kind"] == "ignore-next-line":
            first_line, line = next((lines for lines in statements if lines[0] > line), (0, 0))
        found.append(
            Suppression(
                line=line,
                first_line=first_line,
                offset=start + match.start(),
                end=start + match.start() + len(match[0].rstrip()),
                whole_file=match["kind"] == "ignore-file",
                codes=codes,
                reason=match["reason"].strip(),
                misspelt=not codes and misspelt,
                kind=match["kind"],
            )
        )
    return found


def statement_spans(text: str) -> list[tuple[int, int]]:
    """The first and the last line of every statement, or of its head where it holds others."""
    return _find_comments(text)[1]


def _find_comments(text: str) -> tuple[list[tuple[int, int, int, str]], list[tuple[int, int]]]:
    """Every comment: the line where what it ends starts (its own, in the middle of something), line, column, text.

    And the lines of every statement.
    """
    out: list[tuple[int, int, int, str]] = []
    heads: list[tuple[int, int]] = []
    begun = last = 0
    # tokenize wants \n; a lone \r is the one newline it would not count.
    readline = io.StringIO(text.replace("\r\n", " \n").replace("\r", "\n")).readline
    try:
        for token in tokenize.generate_tokens(readline):
            line, column = token.start
            if token.type == tokenize.COMMENT:
                out.append((line, line, column, token.string))
                last = line
            elif token.type == tokenize.NEWLINE:
                if out and last == line and begun:
                    out[-1] = (begun, *out[-1][1:])
                if begun:
                    heads.append((begun, line))
                begun = 0
            elif token.type not in _LAYOUT and not begun:
                begun = line
    except (tokenize.TokenError, SyntaxError):
        pass  # what came before the broken place still counts
    return out, heads
