"""Where a function stands that a fix writes beside a statement: its lines, and the empty ones around it."""

from __future__ import annotations

import ast

from shardlint.rewrite.indent import indented_as
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint_rules.equinox.wrapped_functions import NotRewritten


def replace_statement(site: Site, statement: ast.stmt, text: str, indent: str) -> list[Edit]:
    """A definition in the place of a statement, with empty lines around it."""
    source = site.file.source
    above, below = _missing_lines(site, statement, 1 if indent else 2)
    start, end = site.file.character_span(statement)
    line_start = source.line_starts[statement.lineno - 1]
    comment = _text_after_statement(site, statement)
    if comment.strip():  # of the whole: it goes to the first line
        first, _, others = text.partition("\n")
        text, end = f"{first}{comment.rstrip()}\n{others}", end + len(comment.rstrip())
    text = indented_as(site.file, text, indent)
    edits = [Edit(line_start, line_start, "\n" * above)] if above else []
    return [*edits, Edit(start, end, text + "\n" * below)]


def indentation_of(site: Site, statement: ast.stmt) -> str:
    """Return the indentation of a statement that shares its lines with no other."""
    source = site.file.source
    start = source.offset_of(statement.lineno, statement.col_offset)
    text = source.text[source.line_starts[statement.lineno - 1] : start]
    rest = _text_after_statement(site, statement).strip()
    if text.strip() or (rest and not rest.startswith("#") and isinstance(statement, ast.Assign)):
        raise NotRewritten(f"line {statement.lineno} holds more than one statement")
    return text


def _text_after_statement(site: Site, statement: ast.stmt) -> str:
    """Return the text after a statement on its last line."""
    line = site.file.source.line_text(statement.end_lineno or statement.lineno)
    return line.encode()[statement.end_col_offset or 0 :].decode()


def _missing_lines(site: Site, statement: ast.stmt, wanted: int) -> tuple[int, int]:
    """How many empty lines are missing above and below a definition that takes a statement's place."""
    source = site.file.source
    above = statement.lineno - 1
    while above > 0 and not source.line_text(above).strip():
        above -= 1
    told = source.line_text(above).strip() if above else ":"
    begins = told.endswith(":") or told.startswith("#")
    last = len(source.line_starts)
    end = statement.end_lineno or statement.lineno
    below = end + 1
    while below <= last and not source.line_text(below).strip():
        below += 1
    return (
        0 if begins else max(0, wanted - (statement.lineno - 1 - above)),
        0 if below > last else max(0, wanted - (below - end - 1)),
    )


def blank_lines_above(site: Site, statement: ast.stmt, indent: str) -> str:
    """The empty lines that are missing above a definition."""
    source = site.file.source
    line = statement.lineno - 1
    above = source.line_text(line).strip() if line else ""
    if not above or above.endswith(":"):
        return "" if indent or not line or not source.line_text(max(1, line - 1)).strip() else source.common_newline
    return source.common_newline * (1 if indent else 2)
