"""Random keys in a tree of which `replicate` makes a copy for each device."""

from __future__ import annotations

import ast

from shardlint.model.reach import lookup
from shardlint.model.values import Api, options
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name

COPYING = ("flax.jax_utils.replicate", "jax.device_put_replicated")
_MAKING = ("jax.random.split", "jax.random.PRNGKey", "jax.random.key", "jax.random.fold_in")
_NAMED = regex(r"(?i)(?:^|_)(?:keys?|rngs?|prngs?)(?:$|_)")
# What may tell the copies apart later on.
_APART = ("axis_index(", "process_index(", "shard_prng_key", "local_device_count())")
# Keys that are meant to be alike: weights are drawn with them.
_ALIKE = regex(r"(?i)init|param|model|net|shared|common|global")
_DEPTH = 3


def copied_key(site: Site) -> ast.expr | None:
    """The key among what a tree holds that a site copies to all devices, where nothing tells the copies apart."""
    if not site.call.args or any(site.anywhere(text) for text in _APART):
        return None
    tree = _tree(site, site.call.args[0], 0)
    parts = (
        tree.values
        if isinstance(tree, ast.Dict)
        else tree.elts
        if isinstance(tree, ast.Tuple | ast.List)
        else []
    )
    others = [one for one in parts if not _is_key(site, one)]
    keys = [one for one in parts if _is_key(site, one) and not _ALIKE.search(site.text(one))]
    return keys[0] if keys and others else None


def _tree(site: Site, node: ast.expr, depth: int) -> ast.expr | None:
    """The tuple, list or dict that an expression is, also behind a map over its leaves."""
    if depth > _DEPTH:
        return None
    match node:
        case ast.Tuple() | ast.List() | ast.Dict():
            return node
        case ast.Call(args=[_, tree]) if last_name(node.func) in ("tree_map", "map"):
            return _tree(site, tree, depth + 1)
        case ast.Name(id=name):
            bindings = [one for one in lookup(site.file, node, name)[0] if one.line < site.call.lineno]
            values = [one.value for one in bindings if one.kind == "assign" and one.value is not None]
            values.sort(key=lambda one: one.lineno)
            for value in reversed(values):
                found = _tree(site, value, depth + 1) if not _is(site, value) else None
                if found is not None:
                    return found
    return None


def _is(site: Site, value: ast.expr) -> bool:
    return any(value is one for one in (site.call, *site.call.args))


def _is_key(site: Site, node: ast.expr) -> bool:
    """Whether a name is that of a key, and bound to one that jax makes."""
    if not isinstance(node, ast.Name) or not _NAMED.search(node.id):
        return False
    bindings = lookup(site.file, node, node.id)[0]
    return any(
        isinstance(one.value, ast.Call)
        and any(
            isinstance(made, Api) and made.name in _MAKING for made in options(site.value(one.value.func))
        )
        for one in bindings
    )
