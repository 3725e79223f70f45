"""What jit made, of which the shardings are computed only afterwards. For one rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, Function, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.placed import placed_around, places
from shardlint_rules.jit.reads import name_of, reads

_NAMES = ("get_sharding", "get_partition_spec", "get_named_sharding")
_READERS = tuple(f"flax.{kind}.{name}" for kind in ("linen", "nnx") for name in _NAMES)
_MAPS = ("jax.tree.map", "jax.tree_util.tree_map", "jax.tree_util.tree_map_with_path", "jax.tree.map_with_path")
_SHARDINGS = ("jax.sharding.NamedSharding", "jax.sharding.PartitionSpec")
_PLACES_INSIDE = ("constrain", "shard", "device_put", "partition")


def shardings_after(site: Site, function: ast.AST, call: ast.Call) -> ast.Call | None:
    """Where the shardings of what a jitted function made are computed from the arrays, if these are placed nowhere.

    None where the function may place them itself, or is given what lies on a mesh.
    """
    if not _places_nothing(site, function) or any(_lies_on_a_mesh(site, one) for one in _given(call)):
        return None
    target = name_of(site.file, call)
    found: list[ast.Call] = []
    for use in reads(site.file, target) if target is not None else ():
        outer = list(_calls_around(site, use))
        reading = [one for one in outer if _reads_shardings(site, one)]
        found += reading
        placing = any(places(site, one) or _may_place(one, use) for one in outer)
        if not reading and (placing or placed_around(site, use)):
            return None
    return min(found, key=lambda one: one.lineno, default=None)


def _places_nothing(site: Site, function: ast.AST) -> bool:
    """Whether the text of a function says nothing of where its arrays go."""
    if isinstance(function, ast.FunctionDef | ast.Lambda):
        return not any(word in site.text(function) for word in _PLACES_INSIDE)
    found = options(site.value(function)) if isinstance(function, ast.expr) else ()
    return bool(found) and all(_is_plain(one) for one in found)


def _is_plain(value: Value) -> bool:
    if not isinstance(value, Function):
        return False
    text = value.place.file.text(value.node)
    return not any(word in text for word in _PLACES_INSIDE)


def _given(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (one.value for one in call.keywords)


def _lies_on_a_mesh(site: Site, node: ast.expr) -> bool:
    return site.shardings.spread(site.program.followed(site.value(node)), auto=False)


def _calls_around(site: Site, node: ast.AST) -> Iterator[ast.Call]:
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.stmt | ast.Lambda):
            return
        if isinstance(outer, ast.Call):
            yield outer


def _reads_shardings(site: Site, call: ast.Call) -> bool:
    """Whether a call makes shardings of the tree it is given."""
    found = options(site.value(call.func))
    names = {one.name for one in found if isinstance(one, Api)}
    if not names or len(names) < len(found):
        return False
    if names <= set(_READERS):
        return True
    return names <= set(_MAPS) and bool(call.args) and _makes_a_sharding(site, call.args[0])


def _makes_a_sharding(site: Site, function: ast.expr) -> bool:
    return isinstance(function, ast.Lambda) and any(
        isinstance(part, ast.Call)
        and any(isinstance(one, Api) and one.name in _SHARDINGS for one in options(site.value(part.func)))
        for part in walk(function.body)
    )


def _may_place(call: ast.Call, use: ast.AST) -> bool:
    """Whether a function is given the arrays and, by a word, shardings for them."""
    others = [one for one in _given(call) if use not in walk(one)]
    said = [ast.unparse(one).lower() for one in (*others, call.func)]
    return any("shard" in one or "mesh" in one for one in said)
