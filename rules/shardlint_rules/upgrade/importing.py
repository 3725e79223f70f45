"""Moving one name of a `from` import to another module, leaving its neighbours where they are."""

from __future__ import annotations

import ast
import re

from shardlint.facts import FileFacts
from shardlint.rule import Edit
from shardlint.unused import without_lines

_FROM = re.compile(r"from\s+(?P<module>[\w.]+)\s+import\b")


def move_import(file: FileFacts, alias: ast.alias, new: str, local: str) -> list[Edit]:
    """Edits that import `new` as `local` instead of what `alias` imports. Empty where they cannot be made."""
    statement = file.parent(alias)
    if not isinstance(statement, ast.ImportFrom) or statement.level:
        return []
    module, _, last = new.rpartition(".")
    text = last if last == local else f"{last} as {local}"
    alone = len(statement.names) == 1
    other = _existing(file, statement, module)
    if other is not None and not (alone and _followed(file, statement)):
        there = any((found.asname or found.name) == local and found.name == last for found in other.names)
        joined = [] if there else [_join(file, other, text)]
        return [*joined, without_lines(file, statement) if alone else _without(file, statement, alias)]
    if alone:
        start, _ = file.span(statement)
        match = _FROM.match(file.text(statement))
        if match is None:
            return []
        return [
            Edit(start + match.start("module"), start + match.end("module"), module),
            Edit(*file.span(alias), text),
        ]
    start, _ = file.span(statement)
    line_start = file.source.offset(statement.lineno, 0)
    indent = file.source.text[line_start:start]
    if indent.strip():
        return []  # it shares its line with another statement
    added = f"{indent}from {module} import {text}{file.source.newline}"
    return [Edit(line_start, line_start, added), _without(file, statement, alias)]


def _existing(file: FileFacts, statement: ast.ImportFrom, module: str) -> ast.ImportFrom | None:
    """An import of the new module beside the old one, nothing but imports between them."""
    parent = file.parent(statement)
    block = getattr(parent, "body", [])
    if statement not in block:
        return None
    index = block.index(statement)
    for step in (-1, 1):
        position = index + step
        while 0 <= position < len(block) and isinstance(block[position], ast.Import | ast.ImportFrom):
            found = block[position]
            if isinstance(found, ast.ImportFrom) and found.module == module and not found.level:
                return found if found.names[0].name != "*" else None
            position += step
    return None


def _join(file: FileFacts, statement: ast.ImportFrom, text: str) -> Edit:
    last = statement.names[-1]
    end = file.span(last)[1]
    if last.lineno > statement.lineno:  # a name a line
        line = file.source.line(last.lineno)
        indent = line[: len(line) - len(line.lstrip())]
        return Edit(end, end, f",{file.source.newline}{indent}{text}")
    return Edit(end, end, f", {text}")


def _without(file: FileFacts, statement: ast.ImportFrom, alias: ast.alias) -> Edit:
    index = statement.names.index(alias)
    start, end = file.span(alias)
    if index + 1 < len(statement.names):
        return Edit(start, file.span(statement.names[index + 1])[0], "")
    return Edit(file.span(statement.names[index - 1])[1], end, "")


def _followed(file: FileFacts, statement: ast.stmt) -> bool:
    """Whether a comment or another statement shares the line, which must not go with the import."""
    before = file.source.text[file.source.offset(statement.lineno, 0) : file.span(statement)[0]]
    line = statement.end_lineno or statement.lineno
    end = file.span(statement)[1]
    starts = file.source.line_starts
    after = file.source.text[end : starts[line] if line < len(starts) else len(file.source.text)]
    return bool(before.strip() or after.strip()) or "#" in file.text(statement)
