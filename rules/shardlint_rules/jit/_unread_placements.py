"""Placements whose result goes into something that is never read. For SL203."""

from __future__ import annotations

import ast

from shardlint.facts.result_uses import use_of_result
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings

# What only makes a tree of what it is given.
_BUILDING = frozenset(
    """
    flax.nnx.from_flat_state flax.nnx.merge flax.nnx.State flax.traverse_util.unflatten_dict flax.core.freeze
    jax.tree.unflatten jax.tree.map jax.tree.map_with_path equinox.combine equinox.tree_at dataclasses.replace
    builtins.dict builtins.list builtins.tuple builtins.zip
    """.split()
)
_METHODS = ("replace", "_replace", "copy")
_HOPS = 4


def find_unread_tree_name(site: Site) -> ast.Name | None:
    """The name that is never read of a tree which a placement ends up in, and nowhere else."""
    node: ast.expr = site.call
    scope = site.file.evaluation_scope(site.call)
    for hop in range(_HOPS):
        whole = _enclosing_tree(site, node)
        statement = site.file.parent(whole)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.value is not whole:
            return None
        target = statement.targets[0]
        if (
            not isinstance(target, ast.Name)
            or len(site.file.bindings(site.file.evaluation_scope(target), target.id)) != 1
        ):
            return None
        use, _ = use_of_result(site.file, whole)
        if use == "never read":
            return target if hop or whole is not site.call else None
        reads = [
            one
            for one in site.file.find_mentions(target.id)
            if isinstance(one, ast.Name)
            and isinstance(one.ctx, ast.Load)
            and any(binding.node is target for binding in lookup_bindings(site.file, one, target.id)[0])
        ]
        if (
            len(reads) != 1
            or site.file.evaluation_scope(reads[0]).enclosing_function() is not scope.enclosing_function()
        ):
            return None
        node = reads[0]
    return None


def _enclosing_tree(site: Site, node: ast.expr) -> ast.expr:
    """The tree that an expression becomes a part of, in its statement."""
    while True:
        parent = site.file.parent(node)
        if isinstance(parent, ast.keyword):
            parent = site.file.parent(parent)
        match parent:
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Starred():
                node = parent
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt) if elt is node:
                node = parent
            case ast.DictComp(value=value) if value is node:
                node = parent
            case ast.Call(func=func) if func is not node and _builds_tree(site, func):
                node = parent
            case _:
                return node


def _builds_tree(site: Site, func: ast.expr) -> bool:
    if isinstance(func, ast.Attribute) and func.attr in _METHODS:
        return True
    return all(isinstance(one, Api) and one.name in _BUILDING for one in options(site.value(func)))
