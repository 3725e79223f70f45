"""What is given to a `pmap` as one copy for each device: split by the call, and the same on all of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.reach import lookup
from shardlint.model.values import Function, Place, options
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model import Program

_ALIKE = ("broadcast_to", "zeros", "ones", "full")
_HANDS_ON = ("array", "asarray", "device_put", "device_put_sharded", "stack")
_DEPTH = 5


def is_copies(program: Program, file: FileFacts, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is copies of one thing, on all ways to it."""
    return copied_at(program, file, node, depth) is not None


def copied_at(program: Program, file: FileFacts, node: ast.AST, depth: int = 0) -> Place | None:
    """Where the copies are made that an expression is on all ways to it."""
    if depth > _DEPTH:
        return None
    match node:
        case ast.Name():
            found = lookup(file, node, node.id)[0]
            made = [
                copied_at(program, file, one.value, depth + 1)
                if one.kind == "assign" and one.value is not None
                else None
                for one in found
            ]
            return made[0] if made and None not in made else None
        case ast.BinOp(op=ast.Mult()) if isinstance(node.left, ast.List) or isinstance(node.right, ast.List):
            return Place(file, node)
        case ast.Call(args=[first, *_]):
            name = file.text(node.func).rsplit(".", 1)[-1].lower()
            if name in _ALIKE or ("replicat" in name and "unreplicat" not in name):
                return Place(file, node)
            if name in ("map", "tree_map") and isinstance(first, ast.Lambda):
                return copied_at(program, file, first.body, depth + 1)
            if name in _HANDS_ON:
                return copied_at(program, file, first, depth + 1)
    return _returned(program, file, node, depth) if isinstance(node, ast.Call) else None


def _returned(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Place | None:
    """Where a function of the project makes the copies that it returns."""
    found = options(program.value(file, call.func))
    function = found[0] if len(found) == 1 else None
    if not isinstance(function, Function) or not isinstance(function.node, ast.FunctionDef):
        return None
    inside = function.place.file
    returns = [one.value for one in inside.walked(inside.scope(function.node)).returns]
    made = [copied_at(program, inside, one, depth + 1) if one is not None else None for one in returns]
    return made[0] if made and None not in made else None
