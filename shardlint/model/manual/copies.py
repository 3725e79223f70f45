"""What is given to a `pmap` as one copy for each device: split by the call, and the same on all of them."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup
from shardlint.syntax import FileFacts

_ALIKE = ("broadcast_to", "zeros", "ones", "full")
_HANDS_ON = ("array", "asarray", "device_put", "device_put_sharded", "stack")
_DEPTH = 5


def is_copies(file: FileFacts, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is copies of one thing, on all ways to it."""
    if depth > _DEPTH:
        return False
    match node:
        case ast.Name():
            found = lookup(file, node, node.id)[0]
            return bool(found) and all(
                one.kind == "assign" and one.value is not None and is_copies(file, one.value, depth + 1)
                for one in found
            )
        case ast.BinOp(op=ast.Mult()):
            return isinstance(node.left, ast.List) or isinstance(node.right, ast.List)
        case ast.Call(args=[first, *_]):
            name = file.text(node.func).rsplit(".", 1)[-1].lower()
            if name in _ALIKE or ("replicat" in name and "unreplicat" not in name):
                return True
            if name in ("map", "tree_map") and isinstance(first, ast.Lambda):
                return is_copies(file, first.body, depth + 1)
            return name in _HANDS_ON and is_copies(file, first, depth + 1)
    return False
