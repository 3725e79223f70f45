"""A mesh that the function around a call makes itself, so that no caller can have entered it. Part of SL214."""

from __future__ import annotations

import ast

from shardlint.model.values import CallResult, options
from shardlint.rules_api.site import Site

_MAKERS = ("jax.sharding.Mesh", "jax.make_mesh")


def find_mesh_creation(site: Site) -> ast.expr | None:
    """The call by which a function around the site makes its mesh; of a script, its own text.

    None where a mesh comes from elsewhere too: a caller may have set that one.
    """
    found: list[ast.expr] = []
    for scope in site.scope.enclosing_scopes():
        if scope.kind not in ("function", "module"):
            continue
        for statement in site.file.walk_scope(scope).statements:
            if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
                continue
            value, target = statement.value, statement.targets[0]
            if not isinstance(target, ast.Name) or not isinstance(value, ast.Call) or "esh" not in target.id:
                continue
            made = [isinstance(one, CallResult) and one.api in _MAKERS for one in options(site.value(value))]
            if all(made) and value.lineno < site.call.lineno:
                found.append(value)
    return found[0] if found else None
