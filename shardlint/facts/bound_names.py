"""Where a result is read: by the name it is bound to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import find_binding_reads
from shardlint.syntax import FileFacts


def sole_name_of(file: FileFacts, node: ast.AST) -> ast.Name | None:
    """The one name an expression is bound to, by an assignment to nothing else."""
    parent = file.parent(node)
    if (
        isinstance(parent, ast.Assign)
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
    ):
        return parent.targets[0]
    return None


def reads_of_binding(file: FileFacts, target: ast.Name, only: bool = True) -> Iterator[ast.Name]:
    """The reads that this binding of a name reaches; with `only`, and no other binding."""
    for use, alone in find_binding_reads(file, target):
        if alone or not only:
            yield use


def calls_of_made_function(file: FileFacts, maker: ast.Call) -> Iterator[ast.Call]:
    """The calls, in this file, of the function that a call makes: on the spot, or of its name."""
    parent = file.parent(maker)
    if isinstance(parent, ast.Call) and parent.func is maker:
        yield parent
    target = sole_name_of(file, maker)
    for use in reads_of_binding(file, target) if target is not None else ():
        call = file.parent(use)
        if isinstance(call, ast.Call) and call.func is use:
            yield call
