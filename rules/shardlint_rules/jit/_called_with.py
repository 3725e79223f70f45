"""The shapes of a function's parameters, where every call of it is known."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.shapes import Shape, shape_of
from shardlint.model.values import Place
from shardlint.rules_api.site import Site

# Through these a function is given the arrays as they are.
_KEEPING = (*JIT_WRAPPERS, "jax.checkpoint")


def parameter_shapes(site: Site) -> Mapping[ast.AST, Shape]:
    """Shapes of the parameters of the function around a site, by their nodes."""
    scope = site.scope.function()
    if scope is None or not isinstance(scope.node, ast.FunctionDef) or scope.parent is None:
        return {}
    if scope.parent.kind == "class":
        return {}
    ends = site.program.flow.ends(site.file, scope.node)
    calls = [end for end in ends.found if end.kind == "called"]
    if not ends.complete or not calls:
        return {}
    if any(wrapper.api not in _KEEPING for end in calls for wrapper in end.wrappers):
        return {}
    found: dict[ast.AST, Shape] = {}
    evaluator = site.program.evaluator
    arguments = [evaluator.arguments(end.place) for end in calls if isinstance(end.place.node, ast.Call)]
    names = [*scope.node.args.posonlyargs, *scope.node.args.args]
    for index, parameter in enumerate(names):
        shapes: set[Shape | None] = set()
        for given in arguments:
            place: Place | None = given.keywords.get(parameter.arg)
            if place is None and index < len(given.positional) and not given.open_positional:
                place = given.positional[index]
            shapes.add(shape_of(evaluator, place) if place is not None else None)
        only = shapes.pop() if len(shapes) == 1 else None
        if only is not None:
            found[parameter] = only
    return found
