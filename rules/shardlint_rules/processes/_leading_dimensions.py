"""Arrays whose first dimension is to be that of the devices of a `pmap`, and is made of another count."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.value_uses import reads_of_same_value

_SHAPING = ("reshape", "broadcast_to", "zeros", "ones", "full", "empty", "tile", "repeat")
_BATCHING = ("batch", "padded_batch")
_PER_DEVICE = compile_lazily(
    r"(?i)(?:^|_)(?:per_?)?(?:device|core|chip|gpu|tpu)_batch|batch\w*_per_?(?:device|core|chip|gpu|tpu)"
)


@dataclass(frozen=True)
class Rows:
    """An expression that makes as many rows as a count. With `paired` the size of each row is the quotient by the
    count.

    `count` is the expression in it that is the count: the call that counts, or a name for its result.
    """

    by: str
    paired: bool
    count: ast.expr


def find_row_count(site: Site) -> Rows | None:
    """Return the expression that makes an array with a count of rows, by the count itself or by a name for it."""
    named = list(reads_of_same_value(site.file, site.call, alone=False))
    for node in named:
        call = _creating_call(site.file, node)
        if call is not None and (last_name(call.func) != "split" or _is_random(site, call)):
            paired = last_name(call.func) in _BATCHING and _is_divided_by_count(site.file, named)
            return Rows(last_name(call.func), paired, node)
        parent = site.file.parent(node)
        if isinstance(parent, ast.Tuple) and parent.elts[0] is node and _is_shape(site.file, parent, named):
            return Rows(site.shown(parent), True, node)
    return None


def _is_divided_by_count(file: FileFacts, counts: list[ast.expr]) -> bool:
    """Return whether a value is divided by the count in its function: `batch(size // n)` before `batch(n)`."""
    texts = {file.source_text(one) for one in counts}
    function = file.evaluation_scope(counts[0]).enclosing_function()
    if function is None:
        return False
    return any(
        isinstance(one, ast.BinOp) and isinstance(one.op, ast.FloorDiv) and file.source_text(one.right) in texts
        for one in walk_nodes(function.node)
    )


def _is_shape(file: FileFacts, shape: ast.Tuple, counts: list[ast.expr]) -> bool:
    """`(n, batch // n)` under a name: the rows of an array, and how many examples are in each."""
    if len(shape.elts) < 2 or not isinstance(
        file.parent(shape), ast.Assign | ast.BinOp | ast.Return | ast.keyword
    ):
        return False
    texts = {file.source_text(one) for one in counts}
    second = shape.elts[1]
    if _PER_DEVICE.search(last_name(second)):
        return True
    return (
        isinstance(second, ast.BinOp)
        and isinstance(second.op, ast.FloorDiv)
        and file.source_text(second.right) in texts
    )


def _creating_call(file: FileFacts, node: ast.expr) -> ast.Call | None:
    """`split(key, n)`, `x.reshape(n, ...)`, `reshape(x, (n, ...))`, `[x] * n` in a stack, `dataset.batch(n)`."""
    parent = file.parent(node)
    if isinstance(parent, ast.List) and parent.elts[0] is node:
        call = file.parent(parent)
        return call if isinstance(call, ast.Call) and last_name(call.func) == "tile" else None
    if isinstance(parent, ast.Tuple) and parent.elts[0] is node:
        above = file.parent(parent)
        call = file.parent(above) if isinstance(above, ast.BinOp) and above.left is parent else above
        call = file.parent(call) if isinstance(call, ast.keyword) else call
        return call if isinstance(call, ast.Call) and _gives_shape(file, call, node) else None
    if isinstance(parent, ast.keyword) and parent.arg == "num":
        parent = file.parent(parent)
        return parent if isinstance(parent, ast.Call) and last_name(parent.func) == "split" else None
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
        call = file.parent(parent)
        repeated = parent.left if parent.right is node else parent.right
        stacks = isinstance(call, ast.Call) and last_name(call.func) in ("stack", "array", "asarray")
        return call if isinstance(repeated, ast.List) and isinstance(call, ast.Call) and stacks else None
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return None
    name, at = last_name(parent.func), parent.args.index(node)
    if name == "split" and at == 1:
        return parent
    if name == "reshape" and at == 0 and len(parent.args) > 1 and _gives_shape(file, parent, node):
        return parent
    return parent if name in _BATCHING and at == 0 and isinstance(parent.func, ast.Attribute) else None


def _is_random(site: Site, call: ast.Call) -> bool:
    found = options(site.value(call.func))
    return all(isinstance(one, Api) and one.name == "jax.random.split" for one in found)


def _gives_shape(file: FileFacts, call: ast.Call, count: ast.expr) -> bool:
    """Return whether a call gives an array a shape; one of devices is a mesh in the making."""
    shaped = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return last_name(call.func) in _SHAPING and not any(
        "devices" in file.source_text(one)
        for one in (*shaped, *call.args[:1])
        if one is not count and not isinstance(one, ast.Tuple)
    )
