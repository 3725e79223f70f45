"""What short functions of the project return."""

from __future__ import annotations

import ast

from shardlint.model.values import Function


def returned(function: Function) -> ast.expr | None:
    """The one expression that a function of the project returns."""
    if isinstance(function.node, ast.Lambda):
        return function.node.body
    file = function.place.file
    returns = file.walked(file.scope(function.node)).returns
    values = [one.value for one in returns if isinstance(one, ast.Return) and one.value is not None]
    return values[0] if len(values) == len(returns) == 1 else None
