"""Moving one name of a `from` import to another module, leaving its neighbours where they are."""

from __future__ import annotations

import ast

from shardlint.rewrite.unused_imports import without_lines
from shardlint.rules_api.import_order import add_imported_name, one_a_line, replacement_import_line
from shardlint.rules_api.rule import Edit
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts

_FROM = compile_lazily(r"from\s+(?P<module>[\w.]+)\s+import\b")


def move_import(file: FileFacts, alias: ast.alias, new: str, local: str) -> list[Edit]:
    """Edits that import `new` as `local` instead of what `alias` imports. Empty where they cannot be made."""
    statement = file.parent(alias)
    if not isinstance(statement, ast.ImportFrom) or statement.level:
        return []
    module, _, last = new.rpartition(".")
    text = last if last == local else f"{last} as {local}"
    alone = len(statement.names) == 1
    other = _existing_import(file, statement, module)
    there = other is not None and any(
        (found.asname or found.name) == local and found.name == last for found in other.names
    )
    if (
        other is not None
        and not (alone and _shares_line(file, statement))
        and (there or not one_a_line(file, module))
    ):
        joined = [] if there else add_imported_name(file, other, text)
        return [*joined, without_lines(file, statement) if alone else _remove_alias(file, statement, alias)]
    written = f"from {module} import {text}"
    place = None if alone and _shares_line(file, statement) else replacement_import_line(file, statement, written)
    line_start = file.source.offset_of(statement.lineno, 0)
    own = range(line_start, file.character_span(statement)[1] + 3)  # its lines, and where the next one begins
    if place is not None and not (alone and place in own):
        added = Edit(place, place, written + file.source.common_newline)
        return [added, without_lines(file, statement) if alone else _remove_alias(file, statement, alias)]
    if alone:
        start, _ = file.character_span(statement)
        match = _FROM.match(file.source_text(statement))
        if match is None:
            return []
        return [
            Edit(start + match.start("module"), start + match.end("module"), module),
            Edit(*file.character_span(alias), text),
        ]
    start, _ = file.character_span(statement)
    indent = file.source.text[line_start:start]
    if indent.strip():
        return []  # it shares its line with another statement
    starts, line = file.source.line_starts, statement.end_lineno or statement.lineno
    follows = module > (statement.module or "") and line < len(starts)  # as people who sort would have it
    at = starts[line] if follows else line_start
    return [Edit(at, at, f"{indent}{written}{file.source.common_newline}"), _remove_alias(file, statement, alias)]


def _existing_import(file: FileFacts, statement: ast.ImportFrom, module: str) -> ast.ImportFrom | None:
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


def _remove_alias(file: FileFacts, statement: ast.ImportFrom, alias: ast.alias) -> Edit:
    index = statement.names.index(alias)
    start, end = file.character_span(alias)
    if index + 1 < len(statement.names):
        return Edit(start, file.character_span(statement.names[index + 1])[0], "")
    return Edit(file.character_span(statement.names[index - 1])[1], end, "")


def _shares_line(file: FileFacts, statement: ast.stmt) -> bool:
    """Return whether a comment or another statement shares the line, which must stay when the import is removed."""
    before = file.source.text[file.source.offset_of(statement.lineno, 0) : file.character_span(statement)[0]]
    line = statement.end_lineno or statement.lineno
    end = file.character_span(statement)[1]
    starts = file.source.line_starts
    after = file.source.text[end : starts[line] if line < len(starts) else len(file.source.text)]
    return bool(before.strip() or after.strip()) or "#" in file.source_text(statement)
