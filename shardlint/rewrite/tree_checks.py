"""Edits and the syntax tree: an expression that replaces another stays one, and no other statement changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rewrite.edits import Layer
from shardlint.rules_api.rule import Edit
from shardlint.syntax import FileFacts

_Path = tuple[int, ...]


def explain_misread(before: FileFacts, layer: Layer, after: FileFacts) -> str | None:
    """Why Python reads the text `after` the edits otherwise than they were meant; None where it does not.

    An expression that replaces another must be read as one: `lambda f: g(f)` in the place of `a` in `a if b else c` is
    not. A statement that no edit touches must be what it was, and in the blocks it was in.
    """
    expressions = _expressions_by_start(after)
    replaced = {before.character_span(node) for node in ast.walk(before.tree) if _is_read(node)}
    for edit in layer.edits:
        if (edit.start, edit.end) in replaced and not _is_read_as_one(layer, edit, expressions):
            line = before.source.position_of(edit.start)[0]
            return f"the replacement at line {line} would not be one expression"
    statements = {
        after.character_span(node)[0]: (path, node) for path, node in _simple_statements(after, after.tree, ())
    }
    for path, node in _simple_statements(before, before.tree, ()):
        start, end = before.character_span(node)
        line = before.source.offset_of(node.lineno, 0)
        if any(_edit_touches_statement(edit, line, start, end) for edit in layer.edits):
            continue
        found = statements.get(layer.map_forward(start))
        around = tuple(layer.map_forward(one) for one in path)
        if found is None or found[0] != around or ast.dump(found[1]) != ast.dump(node):
            return f"the statement at line {node.lineno}, outside the fix, would change"
    return None


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)


def _edit_touches_statement(edit: Edit, line: int, start: int, end: int) -> bool:
    """Return whether an edit is in a statement, before it on the `line` where it begins, or directly after it."""
    if line <= edit.end <= start:
        return not edit.text.endswith(("\n", "\r"))
    if edit.start == end:
        return not edit.text.startswith(("\n", "\r"))
    return edit.start < end and edit.end > start


def _is_read_as_one(layer: Layer, edit: Edit, after: dict[int, list[ast.expr]]) -> bool:
    """Return whether the text of an edit is one expression of the new tree. True also if it is no expression by
    itself.
    """
    try:
        meant = ast.parse(f"(\n{edit.text}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    bare = isinstance(meant, ast.Tuple) and not edit.text.lstrip().startswith("(")
    parts = meant.elts if isinstance(meant, ast.Tuple) and bare else [meant]  # entries of what is around it
    lines = edit.text.split("\n")
    for part in parts:
        first = len(lines[part.lineno - 2].encode()[: part.col_offset].decode())
        start = layer.map_forward(edit.start) + sum(len(line) + 1 for line in lines[: part.lineno - 2]) + first
        if not any(ast.dump(one) == ast.dump(part) for one in after.get(start, ())):
            return False
    return True


def _expressions_by_start(file: FileFacts) -> dict[int, list[ast.expr]]:
    """The expressions of a file by where they begin."""
    found: dict[int, list[ast.expr]] = {}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.expr):
            found.setdefault(file.character_span(node)[0], []).append(node)
    return found


def _simple_statements(file: FileFacts, node: ast.AST, path: _Path) -> Iterator[tuple[_Path, ast.stmt]]:
    """The statements without a block of their own, each with where the blocks around it begin."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and not hasattr(child, "body"):
            yield path, child
        elif not isinstance(child, ast.expr):
            inner = (*path, file.character_span(child)[0]) if isinstance(child, ast.stmt) else path
            yield from _simple_statements(file, child, inner)
