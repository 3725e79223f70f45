"""Stacks of shards that are reshaped as if the devices were not their first dimension."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup, readers
from shardlint.model.values import Api, Constant, options
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk


def mixed_up(site: Site, shard: ast.expr) -> ast.Call | None:
    """The reshape of an untiled `all_gather` whose first dimension is that of a shard, and has others after it."""
    axis = site.keyword("axis")
    value = site.value(axis.value) if axis is not None else Constant(0)
    if not (isinstance(value, Constant) and value.value == 0) or len(site.call.args) > 2:
        return None
    for node in _uses(site):
        parent = site.file.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr == "reshape":
            call = site.file.parent(parent)
            shape = call.args if isinstance(call, ast.Call) and call.func is parent else []
        elif isinstance(parent, ast.Call) and parent.args[:1] == [node] and _reshapes(site, parent):
            call, shape = parent, parent.args[1:]
        else:
            continue
        if len(shape) == 1 and isinstance(shape[0], ast.Tuple):
            shape = shape[0].elts
        if len(shape) > 1 and isinstance(call, ast.Call) and _first_of(site, shape[0], shard):
            return call
    return None


def _uses(site: Site) -> list[ast.AST]:
    """The gather itself, or where the one name that it is given is read."""
    parent = site.file.parent(site.call)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return [site.call]
    target = parent.targets[0]
    if not isinstance(target, ast.Name):
        return []
    return [use for use, sure in readers(site.file, target) if len(lookup(site.file, use, use.id)[0]) == 1]


def _reshapes(site: Site, call: ast.Call) -> bool:
    found = options(site.value(call.func))
    return len(found) == 1 and isinstance(found[0], Api) and found[0].name == "jax.numpy.reshape"


def _first_of(site: Site, size: ast.expr, shard: ast.expr) -> bool:
    """Whether a size is the first dimension of the shard."""
    shape = f"{site.text(shard)}.shape"
    if isinstance(size, ast.Subscript):
        return site.text(size) == f"{shape}[0]" and _same(site, size, shard)
    if not isinstance(size, ast.Name):
        return False
    bindings, _ = lookup(site.file, size, size.id)
    if len(bindings) != 1 or (given := bindings[0].value) is None:
        return False
    if bindings[0].kind == "unpack":
        return bindings[0].index == 0 and site.text(given) == shape and _same(site, given, shard)
    return bindings[0].kind == "assign" and site.text(given) == f"{shape}[0]" and _same(site, given, shard)


def _same(site: Site, node: ast.AST, shard: ast.expr) -> bool:
    """Whether a name written in two places is one array."""
    names = [one for one in walk(node) if isinstance(one, ast.Name)]
    others = [one for one in walk(shard) if isinstance(one, ast.Name)]
    return len(names) == len(others) and all(
        _bound(site, one) == _bound(site, other) for one, other in zip(names, others, strict=True)
    )


def _bound(site: Site, name: ast.Name) -> list[ast.AST]:
    return [one.node for one in lookup(site.file, name, name.id)[0]]
