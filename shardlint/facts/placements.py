"""Test for code around an expression that places it, in a mesh or on a device."""

from __future__ import annotations

import ast

from shardlint.facts.bound_names import reads_of_binding, sole_name_of
from shardlint.facts.location import Location
from shardlint.facts.shardings import PLACING
from shardlint.model.values import Api, Transformed, options
from shardlint.syntax import last_name

# Of these one stands wherever something is placed, or a mesh is made.
PLACED_WORDS = ("hard", "device_put", "Mesh", "mesh")


def places_argument(location: Location, node: ast.AST) -> bool:
    """Return whether a call is one that places its argument: in a mesh or on a device."""
    if not isinstance(node, ast.Call):
        return False
    callee = location.value(node.func)
    return any(
        (isinstance(option, Api) and option.name in PLACING)
        or (
            isinstance(option, Transformed)
            and option.call is not None
            and "out_shardings" in option.call.keywords
        )
        or (
            isinstance(option, Transformed) and option.call is not None and "in_shardings" in option.call.keywords
        )
        for option in options(callee)
    )


def is_inside_placing_call(location: Location, node: ast.AST) -> bool:
    """Return whether an expression is inside a call that places it, or that only inspects it (a test's assertion)."""
    for outer in location.file.ancestors(node):
        if isinstance(outer, ast.stmt | ast.Lambda):
            return isinstance(outer, ast.Assert)
        if isinstance(outer, ast.Compare):
            return True
        if isinstance(outer, ast.Call) and (
            places_argument(location, outer) or _puts_in_a_map(location, outer) or _is_inspection(location, outer)
        ):
            return True
    return False


def is_placed_later(location: Location, node: ast.AST) -> bool:
    """Return whether the name bound to an expression is passed to code that places it, or says by itself that it is
    placed.
    """
    target = sole_name_of(location.file, node)
    for use in reads_of_binding(location.file, target, only=False) if target is not None else ():
        for outer in location.file.ancestors(use):
            if isinstance(outer, ast.stmt):
                break
            if isinstance(outer, ast.Call) and (places_argument(location, outer) or _says_it_places(outer)):
                return True
    return False


def placed_by_callers(location: Location) -> bool:
    """Return whether a caller of the function around a place puts its result somewhere, at once or later."""
    function = location.scope.enclosing_function()
    while function is not None and not isinstance(function.node, ast.FunctionDef):
        function = function.parent.enclosing_function() if function.parent is not None else None
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return False
    for end in location.program.flow.in_sight(location.file, function.node).found:
        call = end.place.node
        if end.kind != "called" or not isinstance(call, ast.Call):
            continue
        there = Location(location.program, end.place.file, call, location.targets)
        if is_inside_placing_call(there, call) or is_placed_later(there, call):
            return True
    return False


def _says_it_places(call: ast.Call) -> bool:
    name = last_name(call.func)
    return any(word in name.lower() for word in ("shard", "place", "put", "constrain", "replicate"))


def _puts_in_a_map(location: Location, call: ast.Call) -> bool:
    """`jax.tree.map(jax.device_put, arrays, shardings)`."""
    return any(places_argument(location, part) or _is_placing(location, part) for part in call.args[:1])


def _is_placing(location: Location, node: ast.AST) -> bool:
    if isinstance(node, ast.Lambda):
        return places_argument(location, node.body)
    return any(isinstance(option, Api) and option.name in PLACING for option in options(location.value(node)))


def _is_inspection(location: Location, call: ast.Call) -> bool:
    name = last_name(call.func)
    return any(word in name.lower() for word in ("assert", "allclose", "equal", "print"))
