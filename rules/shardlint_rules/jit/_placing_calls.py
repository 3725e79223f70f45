"""Test for calls of placing functions that have a target."""

from __future__ import annotations

import ast

from shardlint.facts.shardings import PLACING
from shardlint.model.api import SIGNATURES
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.values import CallArguments, CallResult, Constant, options
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name


def asks_for_a_place(site: Site) -> bool:
    """Return whether a call of a placing function has a target. `device_put(x)` and `device_put(x, None)` have none."""
    if site.arguments.open_positional or site.arguments.open_keywords:
        return True
    where = site.argument(PLACING[site.api])
    return where is not None and not all(
        isinstance(option, Constant) and option.value is None for option in options(site.value(where))
    )


def is_call_placing(call_result: CallResult, evaluator: Evaluator) -> bool:
    """Return the same for a call that is the value of an expression, including `jax.tree.map(jax.device_put, tree)`."""
    call = call_result.call
    if call is None or call_result.api not in PLACING:
        return True
    where = call.argument_for(PLACING[call_result.api], SIGNATURES.get(call_result.api, ()))
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
