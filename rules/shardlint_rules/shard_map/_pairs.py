"""The pairs of a `ppermute` for some numbers of devices: which sources and destinations are there twice."""

from __future__ import annotations

import ast

from shardlint.syntax import FileFacts

_SIZES = (3, 4, 8)


def twice(file: FileFacts, node: ast.expr) -> str:
    """Whether a comprehension of pairs names a "source" or a "destination" twice, however many devices there are."""
    found: set[str] = set()
    for size in _SIZES:
        pairs = _pairs(file, node, size)
        if pairs is None:
            return ""
        sides = [list(side) for side in zip(*pairs, strict=True)]
        named = zip(("source", "destination"), sides, strict=False)
        again = [name for name, side in named if len(set(side)) < len(side)]
        found.add(again[0] if again else "")
    return found.pop() if len(found) == 1 else ""


def _pairs(file: FileFacts, node: ast.expr, size: int) -> list[tuple[int, int]] | None:
    if not isinstance(node, ast.ListComp | ast.GeneratorExp) or len(node.generators) != 1:
        return None
    match node.elt, node.generators[0]:
        case (
            ast.Tuple(elts=[one, two]),
            ast.comprehension(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args), ifs=[]),
        ):
            whole = _base(args[-1]) if args else None
            if whole is None or len(args) > 2:
                return None
            known = {file.text(whole): size}
            ends = [_number(file, arg, known) for arg in args]
            if None in ends:
                return None
            found: list[tuple[int, int]] = []
            for at in range(*(end for end in ends if end is not None)):
                source, destination = (_number(file, part, known | {name: at}) for part in (one, two))
                if source is None or destination is None:
                    return None
                found.append((source, destination))
            return found or None
    return None


def _base(node: ast.expr) -> ast.expr | None:
    """The number of devices in `n`, `n - 1`, `n + 1`: what is no number written out."""
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        node = node.left
    return None if isinstance(node, ast.Constant | ast.BinOp) else node


def _number(file: FileFacts, node: ast.expr, known: dict[str, int]) -> int | None:
    """What an expression of whole numbers comes to."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(file, node.operand, known)
        return None if inner is None else -inner
    if not isinstance(node, ast.BinOp):
        return known.get(file.text(node))
    left, right = _number(file, node.left, known), _number(file, node.right, known)
    if left is None or right is None:
        return None
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Mod() if right:
            return left % right
        case ast.FloorDiv() if right:
            return left // right
    return None
