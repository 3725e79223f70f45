"""`# shardlint: ignore[...]` comments: which findings they silence, and which silence nothing."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field

_COMMENT = re.compile(
    r"#\s*shardlint:\s*(?P<kind>ignore-file|ignore)\s*(?:\[(?P<codes>[^\]]*)\])?(?P<reason>[^#]*)"
)


@dataclass
class Suppression:
    """One comment. `codes` is empty when it names no rule and so silences all of them."""

    line: int
    offset: int
    end: int
    whole_file: bool
    codes: tuple[str, ...]
    reason: str
    used: set[str] = field(default_factory=set)

    def covers(self, code: str, first_line: int, last_line: int) -> bool:
        """Whether a finding of `code` on these lines is silenced by this comment."""
        if self.codes and code not in self.codes:
            return False
        return self.whole_file or first_line <= self.line <= last_line


def suppressions(text: str, line_starts: list[int]) -> list[Suppression]:
    """All suppression comments of a file; text inside strings does not count."""
    if "shardlint:" not in text:
        return []
    found = []
    for line, column, comment in _comments(text):
        match = _COMMENT.search(comment)
        if match is None:
            continue
        codes = tuple(code.strip() for code in (match["codes"] or "").split(",") if code.strip())
        start = line_starts[line - 1] + column
        found.append(
            Suppression(
                line=line,
                offset=start + match.start(),
                end=start + len(comment.rstrip()),
                whole_file=match["kind"] == "ignore-file",
                codes=codes,
                reason=match["reason"].strip(),
            )
        )
    return found


def _comments(text: str) -> list[tuple[int, int, str]]:
    out = []
    # tokenize wants \n; a lone \r is the one newline it would not count.
    readline = io.StringIO(text.replace("\r\n", " \n").replace("\r", "\n")).readline
    try:
        for token in tokenize.generate_tokens(readline):
            if token.type == tokenize.COMMENT:
                out.append((token.start[0], token.start[1], token.string))
    except (tokenize.TokenError, SyntaxError):
        pass  # what came before the broken place still counts
    return out
