"""Names that surely stand for tracers where they are used."""

from __future__ import annotations

import ast

from shardlint.model.mesh.shardings import PLACING
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, options
from shardlint.rules_api.site import Site

# The arguments of these may be objects of any kind, with a sharding of their own.
_OF_OBJECTS = ("filter_", "nnx.", "named_", "linen", "nn.")
_STATIC = ("static_argnums", "static_argnames", "static_broadcasted_argnums", "nondiff_argnums")
# Modules whose functions make tracers in traced code.
_ARRAYS = ("jax.numpy.", "jax.nn.", "jax.lax.", "jax.random.")


def is_tracer(site: Site, node: ast.expr) -> bool:
    """Whether an expression in proven traced code is surely a tracer.

    That is a parameter of the very function that is traced, when no argument of it is static and it is used as an
    array; or the result of an array function. What a closure brings in may be an array, which has a sharding.
    """
    scope = site.scope.function()
    if not site.region.proven or scope is None or not isinstance(node, ast.Name):
        return False
    bindings, owner = lookup(site.file, node, node.id)
    if owner is not scope or not bindings:
        return False
    for binding in bindings:
        if binding.kind == "param":
            if (
                binding.value is not None
                or not _directly_traced(site)
                or not _used_as_array(site, binding.node)
            ):
                return False
        elif binding.kind != "assign" or binding.value is None or not _computes(site, binding.value):
            return False
    return True


def _directly_traced(site: Site) -> bool:
    steps = site.region.steps
    if not steps or not steps[0].text.startswith("traced by"):
        return False
    if any(word in site.region.by for word in _OF_OBJECTS):
        return False
    place = steps[0].place
    parent = place.file.parent(place.node)
    around = place.file.text(parent) if isinstance(parent, ast.Call) else place.text()
    return not any(word in around for word in _STATIC)


def _used_as_array(site: Site, parameter: ast.AST) -> bool:
    """Whether arithmetic or an array function is applied to a parameter, or it is placed."""
    name = getattr(parameter, "arg", "")
    for use in site.file.mentions(name):
        if not isinstance(use, ast.Name) or use.id != name:
            continue
        if [binding.node for binding in lookup(site.file, use, name)[0]] != [parameter]:
            continue
        parent = site.file.parent(use)
        if isinstance(parent, ast.BinOp | ast.UnaryOp):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr in (
            "shape",
            "ndim",
            "dtype",
            "astype",
            "reshape",
        ):
            return True
        if isinstance(parent, ast.Call) and use in parent.args[:1]:
            names = [getattr(option, "name", "") for option in options(site.value(parent.func))]
            if all(one.startswith(_ARRAYS) or one in PLACING for one in names):
                return True
    return False


def _computes(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return any(isinstance(part, ast.Name) and is_tracer(site, part) for part in (node.left, node.right))
    return isinstance(node, ast.Call) and all(
        isinstance(option, CallResult) and isinstance(option.by, Api) and option.by.name.startswith(_ARRAYS)
        for option in options(site.value(node))
    )
