"""Arrays whose first dimension is to be that of the devices of a `pmap`, and is made of another count."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts import FileFacts, last_name
from shardlint.program.values import Api, options
from shardlint.site import Site

_SHAPING = ("reshape", "broadcast_to", "zeros", "ones", "full", "empty", "tile", "repeat")
_BATCHING = ("batch", "padded_batch")


def leading(site: Site) -> ast.Call | None:
    """The call that makes an array of as many rows as a count says: itself, or by a name for it."""
    for node in _standing_for(site.file, site.call):
        call = _made_of(site.file, node)
        if call is not None and (last_name(call.func) != "split" or _is_random(site, call)):
            return call
    return None


def _standing_for(file: FileFacts, count: ast.Call) -> Iterator[ast.expr]:
    yield count
    parent = file.parent(count)
    if not isinstance(parent, ast.Assign | ast.AnnAssign) or parent.value is not count:
        return
    target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
    function = file.home(count).function()
    if not isinstance(target, ast.Name) or function is None:
        return
    for one in ast.walk(function.node):
        if isinstance(one, ast.Name) and one.id == target.id and isinstance(one.ctx, ast.Load):
            yield one


def _made_of(file: FileFacts, node: ast.expr) -> ast.Call | None:
    """`split(key, n)`, `x.reshape(n, ...)`, `reshape(x, (n, ...))`, `[x] * n` in a stack, `dataset.batch(n)`."""
    parent = file.parent(node)
    if isinstance(parent, ast.Tuple) and parent.elts[0] is node:
        above = file.parent(parent)
        call = file.parent(above) if isinstance(above, ast.BinOp) and above.left is parent else above
        call = file.parent(call) if isinstance(call, ast.keyword) else call
        return call if isinstance(call, ast.Call) and _shapes(file, call, node) else None
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
    if name == "reshape" and at == 0 and len(parent.args) > 1 and _shapes(file, parent, node):
        return parent
    return parent if name in _BATCHING and at == 0 and isinstance(parent.func, ast.Attribute) else None


def _is_random(site: Site, call: ast.Call) -> bool:
    found = options(site.value(call.func))
    return all(isinstance(one, Api) and one.name == "jax.random.split" for one in found)


def _shapes(file: FileFacts, call: ast.Call, count: ast.expr) -> bool:
    """Whether a call gives an array a shape; one of devices is a mesh in the making."""
    shaped = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return last_name(call.func) in _SHAPING and not any(
        "devices" in file.text(one)
        for one in (*shaped, *call.args[:1])
        if one is not count and not isinstance(one, ast.Tuple)
    )
