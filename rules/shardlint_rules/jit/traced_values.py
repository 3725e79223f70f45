"""Names that surely stand for tracers where they are used."""

from __future__ import annotations

import ast

from shardlint.program.reach import lookup
from shardlint.program.values import Api, Made, options
from shardlint.site import Site

_STATIC = ("static_argnums", "static_argnames", "static_broadcasted_argnums", "nondiff_argnums")
# Modules whose functions make tracers in traced code.
_ARRAYS = ("jax.numpy.", "jax.nn.", "jax.lax.", "jax.random.")


def is_tracer(site: Site, node: ast.expr) -> bool:
    """Whether an expression in proven traced code is surely a tracer.

    That is a parameter of the very function that is traced, when no argument of it is static, or the result of an
    array function. What a closure brings in may be an array, which has a sharding.
    """
    scope = site.scope.function()
    if not site.region.proven or scope is None or not isinstance(node, ast.Name):
        return False
    bindings, owner = lookup(site.file, node, node.id)
    if owner is not scope or not bindings:
        return False
    for binding in bindings:
        if binding.kind == "param":
            if not _directly_traced(site) or binding.value is not None or binding.name in ("self", "cls"):
                return False
        elif binding.kind != "assign" or binding.value is None or not _computes(site, binding.value):
            return False
    return True


def _directly_traced(site: Site) -> bool:
    steps = site.region.steps
    if not steps or not steps[0].text.startswith("traced by") or site.region.by.endswith("filter_jit"):
        return False  # filter_jit leaves what is no array as it is
    place = steps[0].place
    parent = place.file.parent(place.node)
    around = place.file.text(parent) if isinstance(parent, ast.Call) else place.text()
    return not any(word in around for word in _STATIC)


def _computes(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return any(isinstance(part, ast.Name) and is_tracer(site, part) for part in (node.left, node.right))
    return isinstance(node, ast.Call) and all(
        isinstance(option, Made) and isinstance(option.by, Api) and option.by.name.startswith(_ARRAYS)
        for option in options(site.value(node))
    )
