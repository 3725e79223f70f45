"""The trees that a `jax.tree.map` goes over, seen from the function that it calls for each leaf. Part of SL201."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, Parameter, options
from shardlint.rules_api.site import Site
from shardlint.syntax.bindings import lookup_bindings

TREE_MAP = "jax.tree.map"


def tree_of_lambda_parameter(site: Site, target: ast.expr) -> ast.expr | None:
    """For a parameter of a lambda that a `tree.map` calls, the tree it comes from."""
    if not isinstance(target, ast.Name):
        return None
    value = site.value(target)
    scope = lookup_bindings(site.file, target, target.id)[1]
    function = scope.node if scope is not None else None
    if not isinstance(value, Parameter) or not isinstance(function, ast.Lambda):
        return None
    call = site.file.parent(function)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not function:
        return None
    if not all(isinstance(one, Api) and one.name == TREE_MAP for one in options(site.value(call.func))):
        return None
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    index = names.index(target.id) + 1 if target.id in names else 0
    return call.args[index] if 0 < index < len(call.args) else None
