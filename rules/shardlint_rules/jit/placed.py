"""Test for code around a place that places arrays, or that asks if it is traced. Shared by the rules of this family."""

from __future__ import annotations

import ast
from copy import copy
from itertools import islice

from shardlint.facts.shardings import PLACING
from shardlint.model.api import SIGNATURES
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.path_tests import MOST_TESTS, tests_on_path
from shardlint.model.values import Api, CallArguments, CallResult, Constant, Transformed, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.jit.reads import reads_of_binding, sole_name_of

# Of these one stands wherever something is placed, or a mesh is made.
PLACED_WORDS = ("hard", "device_put", "Mesh", "mesh")
# What code says that asks whether it is traced.
_ASKS_TRACED = ("Tracer", "is_concrete", "trace_state_clean", "in_jit", "under_jit", "eval_context")


def asks_for_a_place(site: Site) -> bool:
    """Return whether a call of a placing function has a target. `device_put(x)` and `device_put(x, None)` have none."""
    if site.arguments.open_positional or site.arguments.open_keywords:
        return True
    where = site.argument(PLACING[site.api])
    return where is not None and not all(
        isinstance(option, Constant) and option.value is None for option in options(site.value(where))
    )


def is_call_placing(made: CallResult, evaluator: Evaluator) -> bool:
    """Return the same for a call that is the value of an expression, including `jax.tree.map(jax.device_put, tree)`."""
    call = made.call
    if call is None or made.api not in PLACING:
        return True
    where = call.argument_for(PLACING[made.api], SIGNATURES.get(made.api, ()))
    if where is None:
        return call.open_keywords or (call.open_positional and not _maps_one_tree(call))
    found = options(evaluator.value(where, call.environment))
    return not all(isinstance(option, Constant) and option.value is None for option in found)


def _maps_one_tree(call: CallArguments) -> bool:
    """Return whether it is `jax.tree.map` that calls with a leaf, and it goes through one tree only."""
    node = call.place.node
    if not isinstance(node, ast.Call) or last_name(node.func) not in ("map", "tree_map"):
        return False
    return len(node.args) == 2 and not any(isinstance(one, ast.Starred) for one in node.args)


def places_argument(site: Site, node: ast.AST) -> bool:
    """Return whether a call is one that places its argument: in a mesh or on a device."""
    if not isinstance(node, ast.Call):
        return False
    callee = site.value(node.func)
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


def is_inside_placing_call(site: Site, node: ast.AST) -> bool:
    """Return whether an expression is inside a call that places it, or that only inspects it (a test's assertion)."""
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.stmt | ast.Lambda):
            return isinstance(outer, ast.Assert)
        if isinstance(outer, ast.Compare):
            return True
        if isinstance(outer, ast.Call) and (
            places_argument(site, outer) or _puts_in_a_map(site, outer) or _is_inspection(site, outer)
        ):
            return True
    return False


def is_placed_later(site: Site, node: ast.AST) -> bool:
    """Return whether the name bound to an expression is passed to code that places it, or says by itself that it is
    placed.
    """
    target = sole_name_of(site.file, node)
    for use in reads_of_binding(site.file, target, only=False) if target is not None else ():
        for outer in site.file.ancestors(use):
            if isinstance(outer, ast.stmt):
                break
            if isinstance(outer, ast.Call) and (places_argument(site, outer) or _says_it_places(outer)):
                return True
    return False


def placed_by_callers(site: Site) -> bool:
    """Return whether a caller of the function around a place puts its result somewhere, at once or later."""
    function = site.scope.enclosing_function()
    while function is not None and not isinstance(function.node, ast.FunctionDef):
        function = function.parent.enclosing_function() if function.parent is not None else None
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return False
    for end in site.program.flow.in_sight(site.file, function.node).found:
        call = end.place.node
        if end.kind != "called" or not isinstance(call, ast.Call):
            continue
        there = copy(site)
        there.file = end.place.file
        if is_inside_placing_call(there, call) or is_placed_later(there, call):
            return True
    return False


def _says_it_places(call: ast.Call) -> bool:
    name = last_name(call.func)
    return any(word in name.lower() for word in ("shard", "place", "put", "constrain", "replicate"))


def _puts_in_a_map(site: Site, call: ast.Call) -> bool:
    """`jax.tree.map(jax.device_put, arrays, shardings)`."""
    return any(places_argument(site, part) or _is_placing(site, part) for part in call.args[:1])


def _is_placing(site: Site, node: ast.AST) -> bool:
    if isinstance(node, ast.Lambda):
        return places_argument(site, node.body)
    return any(isinstance(option, Api) and option.name in PLACING for option in options(site.value(node)))


def _is_inspection(site: Site, call: ast.Call) -> bool:
    name = last_name(call.func)
    return any(word in name.lower() for word in ("assert", "allclose", "equal", "print"))


def knows_it_is_traced(site: Site) -> bool:
    """`if isinstance(x, Tracer)` and the like, around the place or before it: the code asks whether it is traced."""
    tests = (site.text(test) for test, _ in islice(tests_on_path(site.file, site.syntax), MOST_TESTS))
    return any(word in test for test in tests for word in _ASKS_TRACED)
