"""Where the value of an expression is read: itself, and the names that it gives. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.held import read_in_class, stored
from shardlint.model.reach import readers
from shardlint.syntax import FileFacts


def standing_for(file: FileFacts, node: ast.expr, alone: bool = True) -> Iterator[ast.expr]:
    """An expression, and the reads of the name or of the attribute of `self` that it gives.

    `alone`: only reads that no other value reaches.
    """
    yield node
    target = bound_to(file, node)
    if isinstance(target, ast.Name):
        yield from (use for use, only in readers(file, target) if only or not alone)
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        cls = next((one for one in file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
        if cls is not None and len(list(stored(file, cls, target.attr))) == 1:
            yield from read_in_class(file, target)


def bound_to(file: FileFacts, node: ast.expr) -> ast.expr | None:
    """What an expression is assigned to, alone or as one of several: `rank, n = process_index(), device_count()`."""
    parent = file.parent(node)
    outer = file.parent(parent) if isinstance(parent, ast.Tuple) else parent
    match outer:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            pass
        case _:
            return None
    if not isinstance(parent, ast.Tuple):
        return target
    if not isinstance(target, ast.Tuple) or len(target.elts) != len(parent.elts):
        return None
    return target.elts[parent.elts.index(node)]
