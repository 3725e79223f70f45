"""Functions of jax that only give a result: as a statement they do nothing."""

from __future__ import annotations

import ast

from shardlint.facts.side_effects import called_function, has_no_effects
from shardlint.model.values import CallResult, Function, Parameter, Place, options
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes

_LAX = (
    "psum",
    "pmean",
    "pmax",
    "pmin",
    "psum_scatter",
    "all_gather",
    "all_to_all",
    "ppermute",
    "pvary",
    "pcast",
)
MAKING = (
    "jax.make_array_from_callback",
    "jax.make_array_from_process_local_data",
    "jax.make_array_from_single_device_arrays",
    "jax.experimental.multihost_utils.host_local_array_to_global_array",
    "jax.experimental.multihost_utils.global_array_to_host_local_array",
)
"""Constructors of an array from arrays on devices or in processes."""
# These may be called to start the backend, and are reported as a default alone.
COUNTS = ("jax.device_count", "jax.local_device_count", "jax.process_count", "jax.process_index")
# The result of each, in words.
ONLY_GIVING = {
    **dict.fromkeys((f"jax.lax.{name}" for name in _LAX), "the result of the collective"),
    **dict.fromkeys(MAKING, "the new array"),
    "flax.jax_utils.replicate": "the replicated copy",
    "flax.jax_utils.unreplicate": "the array of one device",
    "flax.training.common_utils.shard": "the array with one row per device",
    "flax.linen.with_logical_constraint": "the constrained array",
    "jax.random.fold_in": "the new key",
    "optax.apply_updates": "the new parameters",
    **dict.fromkeys(COUNTS, "the number"),
}
_ARRAYS = ("jax.numpy.", "jax.lax.")


def dropped_result_message(site: Site, value: str) -> tuple[str, str] | None:
    """Return the message about a result that is dropped by a call as a statement, and the advice; None if nothing is
    lost.
    """
    if not isinstance(site.file.parent(site.call), ast.Expr):
        return None
    default, text = _name_given_default(site), site.shown()
    if default is not None and site.form != "statement":
        return f"This call has no effect: `{default}` stays None.", f"write: {default} = {text}"
    if site.form == "statement":
        lost = "the new array is lost" if _makes_arrays(site) else ""
    else:
        lost = f"{ONLY_GIVING[site.api]} is lost" if site.api not in COUNTS else ""
    if not lost:
        return None
    return (
        f"This statement has no effect: {lost}, and `{value}` stays as it was.",
        f"assign the result: {value} = {text}",
    )


def _name_given_default(site: Site) -> str | None:
    """The name that is left None where a statement is all that runs if it is None: `if n is None: device_count()`."""
    statement = site.file.parent(site.call)
    branch = site.file.parent(statement) if isinstance(statement, ast.Expr) else None
    if not isinstance(branch, ast.If) or branch.body != [statement] or branch.orelse:
        return None
    match branch.test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return name
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return name
    return None


def _makes_arrays(site: Site) -> bool:
    """Return whether a statement calls a function of the project that only returns another array."""
    function = called_function(site.program.evaluator, Place(site.file, site.call))
    if not isinstance(function, Function) or not isinstance(function.node, ast.FunctionDef):
        return False
    if function.node.decorator_list or not has_no_effects(function):
        return False
    if any(isinstance(one, ast.Raise | ast.Assert) for one in walk_nodes(function.node)):
        return False  # it may be called for what it checks
    found = [
        one
        for place in _returned_places(site, function)
        for one in options(site.program.evaluator.value(place))
    ]
    made = [one for one in found if isinstance(one, CallResult) and one.api.startswith(_ARRAYS)]
    # The others are the array as it came.
    return bool(made) and all(one in made or isinstance(one, Parameter) for one in found)


def _returned_places(site: Site, function: Function) -> list[Place]:
    file = function.place.file
    found = file.walk_scope(file.scope(function.node)).returns
    return [Place(file, one.value) for one in found if one.value is not None]
