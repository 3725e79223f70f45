"""Rows of a batch divided by a count of devices that is not the number of rows, and the uses of a count."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.how_many import settled_expression

_OWN = "jax.local_device_count"
_CAST = ("int", "max", "round")


def rows_lost(site: Site) -> ast.BinOp | None:
    """`x.shape[0] // jax.device_count()` as the second size of x, whose first is `jax.local_device_count()`."""
    function = site.scope.function()
    if function is None:
        return None
    for count in standing_for(site.file, site.call):
        divided = _divided_by(site.file, count)
        whose = _rows_of(divided.left) if divided is not None else None
        if divided is None or whose is None or _rounds(site.file, divided):
            continue
        for size in standing_for(site.file, divided):
            if _in_rows_for_own(site, size, whose):
                return divided
    return None


def standing_for(file: FileFacts, node: ast.expr) -> Iterator[ast.expr]:
    """An expression, and the uses of the name that it alone gets: in its function, of `self` in its file."""
    yield node
    parent = file.parent(node)
    outer = file.parent(parent) if isinstance(parent, ast.Tuple) else parent
    if not isinstance(outer, ast.Assign | ast.AnnAssign):
        return
    target = outer.targets[0] if isinstance(outer, ast.Assign) else outer.target
    if isinstance(parent, ast.Tuple):  # `rank, count = process_index(), process_count()`
        if not isinstance(target, ast.Tuple) or len(target.elts) != len(parent.elts):
            return
        target = target.elts[parent.elts.index(node)]
    elif outer.value is not node:
        return
    if isinstance(target, ast.Attribute):
        same = [one for one in file.mentions(target.attr) if isinstance(one, ast.Attribute)]
        same = [one for one in same if file.text(one) == file.text(target)]
        if file.text(target).startswith("self.") and sum(isinstance(one.ctx, ast.Store) for one in same) == 1:
            yield from (one for one in same if isinstance(one.ctx, ast.Load))
        return
    function = file.home(node).function()
    if not isinstance(target, ast.Name) or function is None:
        return
    uses = [one for one in walk(function.node) if isinstance(one, ast.Name) and one.id == target.id]
    if sum(isinstance(one.ctx, ast.Store) for one in uses) == 1:
        yield from (one for one in uses if isinstance(one.ctx, ast.Load))


def _divided_by(file: FileFacts, count: ast.expr) -> ast.BinOp | None:
    """The quotient whose divisor a count is, alone or multiplied with others."""
    node: ast.AST = count
    parent = file.parent(node)
    while (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)) or (
        isinstance(parent, ast.Call) and last_name(parent.func) in _CAST
    ):
        node, parent = parent, file.parent(parent)
    if not isinstance(parent, ast.BinOp) or parent.right is not node:
        return None
    return parent if isinstance(parent.op, ast.FloorDiv | ast.Div) else None


def _rounds(file: FileFacts, divided: ast.BinOp) -> bool:
    """`batch // n * n`: a multiple of the count, or the quotient is divided again."""
    node: ast.AST = divided
    parent = file.parent(node)
    while isinstance(parent, ast.Call) and last_name(parent.func) in _CAST:
        node, parent = parent, file.parent(parent)
    return isinstance(parent, ast.BinOp)


def _rows_of(node: ast.expr) -> str | None:
    """The name of the array whose rows an expression counts: `x.shape[0]`, `len(x)`."""
    match node:
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=0)
        ):
            return name
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return name
    return None


def _in_rows_for_own(site: Site, size: ast.expr, whose: str) -> bool:
    """Whether a size is the second in a `reshape` of an array to as many rows as this process has devices."""
    file = site.file
    parent = file.parent(size)
    sizes = (
        parent.elts if isinstance(parent, ast.Tuple) else parent.args if isinstance(parent, ast.Call) else []
    )
    call: ast.AST | None = parent
    while call is not None and not isinstance(call, ast.Call | ast.stmt):
        call = file.parent(call)
    if not isinstance(call, ast.Call) or last_name(call.func) != "reshape":
        return False
    function_call = not (isinstance(call.func, ast.Attribute) and _root(call.func.value) == whose)
    if function_call:
        if not call.args or _root(call.args[0]) != whose:
            return False
        sizes = sizes[1:] if sizes is call.args else sizes
    if len(sizes) < 2 or sizes[1] is not size:
        return False
    first = settled_expression(file, sizes[0])
    if not isinstance(first, ast.Call):
        return False
    return any(isinstance(one, Api) and one.name == _OWN for one in options(site.value(first.func)))


def _root(node: ast.expr) -> str:
    """The name that is indexed, or reshaped: `x[:n]`, `jnp.asarray(x)`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
