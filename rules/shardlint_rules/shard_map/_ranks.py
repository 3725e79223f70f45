"""How many dimensions an array has by what a function does with it. For SL409."""

from __future__ import annotations

import ast

from shardlint.model.manual.varying import Event
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk


def of_another_rank(event: Event) -> bool:
    """Whether an array has another number of dimensions than its spec has entries, so that the last are not the same.

    Dimensions behind the entries of a spec are whole.
    """
    call, spec = event.place.node, event.leaf.spec
    # Of a product it is told which entry is that of the last dimension.
    if not isinstance(call, ast.Call) or type(spec) is not tuple or not _from_the_end(call):
        return False
    array = call.args[0] if call.args else None
    function = event.place.file.home(call).function()
    if not isinstance(array, ast.Name) or function is None:
        return False
    ranks = {rank for node in walk(function.node) for rank in _told(node, array.id)}
    return bool(ranks) and len(spec) not in ranks


def _from_the_end(call: ast.Call) -> bool:
    """Whether a dimension is counted from the end."""
    given = [one.value for one in call.keywords if one.arg == "axis"] + call.args[1:2]
    return any(isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub) for one in given)


def _told(node: ast.AST, name: str) -> list[int]:
    """The numbers of dimensions that an einsum, an index or the parts of its shape give a name."""
    match node:
        case ast.Call(args=[ast.Constant(value=str(form)), *arrays]) if last_name(node.func) == "einsum":
            letters = form.replace(" ", "").partition("->")[0].split(",")
            return [
                len(taken)
                for taken, one in zip(letters, arrays, strict=False)
                if isinstance(one, ast.Name) and one.id == name and "." not in taken
            ]
        case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Attribute(value=ast.Name(id=base), attr="shape")):
            return [len(parts)] if base == name and not any(isinstance(one, ast.Starred) for one in parts) else []
    return []
