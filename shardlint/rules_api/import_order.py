"""Where a new import belongs: among those of its kind, in the order and the layout that a file keeps."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shardlint.rules_api.rule import Edit
from shardlint.syntax import FileFacts

Statement = ast.Import | ast.ImportFrom
_Key = Callable[[Statement], tuple[Any, ...]]
_NEAR = 3
# So many `from` imports of one name each, and no others, are a style.
_MANY = 3
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def sorted_place(
    file: FileFacts, statement: str, node: ast.AST, kin: Sequence[str], first: int = 0
) -> int | None:
    """The line start where an import belongs; None where that cannot be told, as the imports there are in no order.

    It comes to the imports of its own package, else to those of a package of `kin`, ahead of a node. What stands before
    the statement `first` of the module may have to.
    """
    new = ast.parse(statement).body[0]
    assert isinstance(new, Statement)
    found = [
        block
        for block in import_blocks(file)
        if file.character_span(block[-1])[1] <= file.character_span(node)[0]
        and file.tree.body.index(block[-1]) >= first
    ]
    for wanted in ({_package_of_import(new)}, set(kin)):
        for block in found:
            if not wanted.isdisjoint(map(_package_of_import, block)):
                place = _place_in_order(file, block, new)
                return place if place is not None else _place_after_package(file, block, new)
    return None


def _place_after_package(file: FileFacts, block: Sequence[Statement], new: Statement) -> int | None:
    """Where no order is kept: behind the last import of the same package."""
    same = [statement for statement in block if _package_of_import(statement) == _package_of_import(new)]
    line = (same[-1].end_lineno or same[-1].lineno) if same else 0
    return file.source.line_starts[line] if 0 < line < len(file.source.line_starts) else None


def replacement_import_line(file: FileFacts, old: Statement, statement: str) -> int | None:
    """The line start where an import belongs that takes the place of another one; None where there is no order."""
    new = ast.parse(statement).body[0]
    assert isinstance(new, Statement)
    return next((_place_in_order(file, block, new) for block in import_blocks(file) if old in block), None)


def import_blocks(file: FileFacts) -> list[list[Statement]]:
    """The imports at the head of a file, in parts between which lines are empty or other code stands."""
    found: list[list[Statement]] = []
    before: ast.stmt | None = None
    for statement in file.tree.body:
        if isinstance(statement, _DEFINITIONS):
            break
        if isinstance(statement, Statement) and _stands_alone(file, statement):
            joined = before is not None and found and found[-1][-1] is before
            if joined and before is not None and not _has_blank_line(file, before, statement):
                found[-1].append(statement)
            else:
                found.append([statement])
        before = statement
    return found


def add_imported_name(file: FileFacts, statement: ast.ImportFrom, text: str) -> list[Edit]:
    """Edits that take one more name in a `from` import, at its place where the names are in order."""
    names = statement.names
    alias = ast.parse(f"from m import {text}").body[0]
    assert isinstance(alias, ast.ImportFrom)
    new = alias.names[0].name
    key = next((one for one in _NAME_KEYS if _are_sorted([one(found.name) for found in names])), None)
    after = [found for found in names if key is not None and key(found.name) > key(new)]
    if after:
        start = file.character_span(after[0])[0]
        indent = _indent_of_alias(file, after[0])
        by_line = indent is not None and after[0].lineno > statement.lineno
        return [Edit(start, start, f"{text},{file.source.common_newline}{indent}" if by_line else f"{text}, ")]
    return list(_add_name_at_end(file, statement, text))


def one_a_line(file: FileFacts, module: str) -> bool:
    """Return whether a file imports each name of a module, or of all modules, by a statement of its own, as some
    styles demand.
    """
    taken = [one for one in file.tree.body if isinstance(one, ast.ImportFrom) and not one.level]
    of_it = [one for one in taken if one.module == module]
    if any(len(one.names) > 1 for one in of_it):
        return False
    return len(of_it) > 1 or (len(taken) >= _MANY and all(len(one.names) == 1 for one in taken))


def _add_name_at_end(file: FileFacts, statement: ast.ImportFrom, text: str) -> Iterator[Edit]:
    last = statement.names[-1]
    end = file.character_span(last)[1]
    indent = _indent_of_alias(file, last)
    if indent is None or last.lineno == statement.lineno:
        yield Edit(end, end, f", {text}")
        return
    newline = file.source.common_newline
    line_end = end + len(file.source.text[end:].partition("\n")[0].rstrip("\r"))
    rest = file.source.text[end:line_end]
    if rest.lstrip().startswith(","):
        yield Edit(line_end, line_end, f"{newline}{indent}{text},")
    elif rest.lstrip().startswith("#"):
        yield Edit(end, end, ",")
        yield Edit(line_end, line_end, f"{newline}{indent}{text}")
    else:
        yield Edit(end, end, f",{newline}{indent}{text}")


def _indent_of_alias(file: FileFacts, alias: ast.alias) -> str | None:
    """Return the text before a name on its line, if it is only indentation."""
    start = file.character_span(alias)[0]
    before = file.source.text[file.source.offset_of(alias.lineno, 0) : start]
    return None if before.strip() else before


def _place_in_order(file: FileFacts, block: Sequence[Statement], new: Statement) -> int | None:
    key = max(_KEYS, key=lambda one: _pairs_in_order(file, one))
    if _rank_of_import(new) != _NEAR:  # not behind what is near, whatever its name
        near = next((place for place, one in enumerate(block) if _rank_of_import(one) == _NEAR), len(block))
        block = block[:near] or block
    if not _are_sorted([key(statement) for statement in block]):
        return None
    follower = next((one for one in block if key(one) > key(new)), None)
    if follower is None:
        line = block[-1].end_lineno or block[-1].lineno
        return file.source.line_starts[line] if line < len(file.source.line_starts) else None
    line = follower.lineno
    if follower is not block[0]:
        while file.source.line_text(line - 1).lstrip().startswith("#"):  # a comment belongs to what follows it
            line -= 1
    return file.source.offset_of(line, 0)


def _pairs_in_order(file: FileFacts, key: _Key) -> int:
    return sum(key(one) <= key(two) for block in import_blocks(file) for one, two in itertools.pairwise(block))


def _are_sorted(keys: Sequence[Any]) -> bool:
    return all(one <= two for one, two in itertools.pairwise(keys))


def _stands_alone(file: FileFacts, statement: ast.stmt) -> bool:
    """Return whether a statement shares its lines with no other code."""
    start, end = file.character_span(statement)
    before = file.source.text[file.source.offset_of(statement.lineno, 0) : start]
    after = file.source.text[end:].partition("\n")[0].strip()
    return not before.strip() and (not after or after.startswith("#"))


def _has_blank_line(file: FileFacts, one: ast.stmt, two: ast.stmt) -> bool:
    between = range((one.end_lineno or one.lineno) + 1, two.lineno)
    return any(not file.source.line_text(line).strip() for line in between)


def _module_of_import(statement: Statement) -> str:
    if isinstance(statement, ast.Import):
        return statement.names[0].name
    return "." * statement.level + (statement.module or "")


def _package_of_import(statement: Statement) -> str:
    return _module_of_import(statement).partition(".")[0]


def _rank_of_import(statement: Statement) -> int:
    """Return the rank of an import by its kind: the future, the standard library, other packages, nearby modules."""
    top = _package_of_import(statement)
    if not top:
        return _NEAR
    return 0 if top == "__future__" else 1 if top in sys.stdlib_module_names else 2


def _whole_name(statement: Statement) -> str:
    last = f".{statement.names[0].name}" if isinstance(statement, ast.ImportFrom) else ""
    return (_module_of_import(statement) + last).lower()


def _is_from(statement: Statement) -> bool:
    return isinstance(statement, ast.ImportFrom)


# The orders that isort, ruff and people keep: `import a` before all `from`, or by module, or by the whole name.
_KEYS: tuple[_Key, ...] = (
    lambda one: (_rank_of_import(one), _is_from(one), _module_of_import(one).lower()),
    lambda one: (_rank_of_import(one), _module_of_import(one).lower(), _is_from(one)),
    lambda one: (_rank_of_import(one), _whole_name(one)),
    lambda one: (_is_from(one), _module_of_import(one).lower()),
    lambda one: (_module_of_import(one).lower(), _is_from(one)),
)
# CONSTANTS, Classes, functions; or letters alone.
_NAME_KEYS: tuple[Callable[[str], Any], ...] = (
    lambda name: (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name),
    str.lower,
    lambda name: name,
)
