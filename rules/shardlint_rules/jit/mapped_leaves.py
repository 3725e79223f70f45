"""The trees that a function is mapped over: what the leaf is that its parameter stands for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.origins import value_origins
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.values import Api, Function, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name

_MAPPING = ("map", "tree_map", "map_with_path", "tree_map_with_path")


def trees_mapped_over(site: Site, node: ast.expr) -> Iterator[tuple[Place, ast.Call]]:
    """The trees of which a name is a leaf, each with the `tree.map` that goes over it."""
    if not isinstance(node, ast.Name):
        return
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.Lambda | ast.FunctionDef):
            names = [one.arg for one in (*outer.args.posonlyargs, *outer.args.args)]
            if node.id in names:
                for place in _find_uses(site, outer):
                    yield from _tree_before_mapping(site, place, names.index(node.id))
                return


def _find_uses(site: Site, function: ast.Lambda | ast.FunctionDef) -> Iterator[Place]:
    """Where a function is handed on: itself, or by its name in this file."""
    if isinstance(function, ast.Lambda):
        yield Place(site.file, function)
        return
    for use in site.file.find_mentions(function.name):
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
            found = options(site.value(use))
            if any(isinstance(one, Function) and one.place.node is function for one in found):
                yield Place(site.file, use)


def _tree_before_mapping(site: Site, use: Place, index: int) -> Iterator[tuple[Place, ast.Call]]:
    call = use.file.parent(use.node)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not use.node:
        return
    if last_name(call.func) == "partial" and len(call.args) == 1:
        use = Place(use.file, call)
        yield from _tree_before_mapping(site, use, index)
        return
    if last_name(call.func) not in _MAPPING:
        return
    for one in options(site.program.value(use.file, call.func)):
        if isinstance(one, Api) and one.name in MAPS:
            at = index + 1 - len(MAPS[one.name])
            if 1 <= at < len(call.args) and not any(isinstance(arg, ast.Starred) for arg in call.args[: at + 1]):
                yield Place(use.file, call.args[at]), call
                return


def array_values(site: Site, node: ast.expr) -> Iterator[Value]:
    """Yield the values of an array: the expression itself, with the values from callers, or the tree of which it is a
    leaf.
    """
    trees = [place for place, _ in trees_mapped_over(site, node)]
    for place in trees or [Place(site.file, node)]:
        yield from value_origins(site.program, place)


def may_be_sharded_array(site: Site, value: Value) -> bool:
    """Return whether an array, whatever made it, is placed by a sharding that may shard it."""
    return all(site.shardings.may_be_spread(one) for one in options(value))
