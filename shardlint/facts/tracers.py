"""Test for tracers among expressions, by the visible calls: an argument of a jitted function, or a leaf of one.

It is followed backwards: through parameters to what calls give, through `jax.tree.map` to the trees it goes over,
through attributes, items and array functions. Values that a closure brings in, and static arguments, are none.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.facts.jit_settings import setting_positions
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.function_uses import FunctionUse
from shardlint.model.signatures import JITS, Jitted, jitted_value, parameters_of_definition, takes_self
from shardlint.model.values import CallResult, Place, options
from shardlint.syntax import Binding, Scope
from shardlint.syntax.bindings import lookup_bindings

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 8
# Modules whose functions make tracers of tracers.
_ARRAYS = ("jax.numpy.", "jax.nn.", "jax.lax.", "jax.random.", "jax.tree.map")
# These call a function with tracers whatever it is called with.
_TRACING = ("jax.grad", "jax.value_and_grad", "jax.vmap", "jax.lax.", "jax.shard_map", "jax.pmap", "jax.checkpoint")


def tracer_in_sight(program: Program, place: Place, depth: int = 0) -> str:
    """Return the reason why an expression is a tracer, or an empty string: "an argument of `step`, traced by
    jax.jit".
    """
    node = place.node
    if depth > _DEPTH:
        return ""
    match node:
        case ast.Attribute(value=base) | ast.Subscript(value=base):
            return tracer_in_sight(program, Place(place.file, base), depth + 1)
        case ast.BinOp(left=left, right=right):
            found = (tracer_in_sight(program, Place(place.file, one), depth + 1) for one in (left, right))
            return next(filter(None, found), "")
        case ast.Call():
            return _tracer_from_call(program, place, node, depth)
        case ast.Name():
            return _tracer_from_name(program, place, node, depth)
    return ""


def _tracer_from_call(program: Program, place: Place, call: ast.Call, depth: int) -> str:
    """Of the result of an array function, or of a map over trees: what makes an argument a tracer."""
    made = options(program.evaluator.value(place))
    if not all(isinstance(one, CallResult) and one.api.startswith(_ARRAYS) for one in made):
        return ""
    arguments = call.args[1:] if any(getattr(one, "api", "") in MAPS for one in made) else call.args
    return next(filter(None, (tracer_in_sight(program, Place(place.file, one), depth + 1) for one in arguments)), "")


def _tracer_from_name(program: Program, place: Place, name: ast.Name, depth: int) -> str:
    bindings, owner = lookup_bindings(place.file, name, name.id)
    if not bindings or owner is None or owner.enclosing_function() is None:
        return ""
    found = [_tracer_from_binding(program, place, binding, owner, depth) for binding in bindings]
    return found[0] if all(found) else ""


def _tracer_from_binding(program: Program, place: Place, binding: Binding, owner: Scope, depth: int) -> str:
    if binding.kind == "param":
        return _tracer_from_parameter(program, place, owner, binding.name, depth)
    if binding.kind == "assign" and binding.value is not None:
        return tracer_in_sight(program, Place(place.file, binding.value), depth + 1)
    return ""


def _tracer_from_parameter(program: Program, place: Place, scope: Scope, name: str, depth: int) -> str:
    """Of a parameter: it is a tracer where it is one in every call in sight."""
    file, node = place.file, scope.node
    if not isinstance(node, ast.FunctionDef | ast.Lambda):
        return ""
    ends = program.flow.ends(file, node) if isinstance(node, ast.Lambda) else program.flow.in_sight(file, node)
    if ends.cut:
        return ""
    parameters = parameters_of_definition(node)
    if takes_self(scope) and parameters.positional:
        if name == parameters.positional[0]:
            return ""
        parameters = parameters.without_first()
    index = parameters.positional.index(name) if name in parameters.positional else None
    found: list[str] = []
    for end in ends.found:
        if end.kind == "wrapped" or (end.kind == "called" and end.is_staged):
            found.append(_tracer_from_jit(program, end, node, index))
        elif end.kind == "called" and end.wrappers and end.wrappers[-1].api in MAPS:
            found.append(_tracer_from_tree_map(program, end, index, depth))
        elif end.kind == "called" and end.wrappers and end.wrappers[-1].api.startswith(_TRACING):
            found.append(f"`{name}` is traced by {end.wrappers[-1].name}")
        elif end.kind == "called" and not end.wrappers:
            given = (parameters.bind_arguments(program.evaluator.read_arguments(end.place)) or {}).get(name)
            found.append(tracer_in_sight(program, given, depth + 1) if given is not None else "")
        elif end.kind == "called":
            found.append("")
    return found[0] if found and all(found) else ""


def _tracer_from_tree_map(program: Program, end: FunctionUse, index: int | None, depth: int) -> str:
    """Of a parameter of what `jax.tree.map` calls: what makes the tree that it is a leaf of one of tracers."""
    call = end.place.node
    skipped = len(MAPS[end.wrappers[-1].api])
    where = index + 1 - skipped if index is not None else 0
    if not isinstance(call, ast.Call) or not 0 < where < len(call.args):
        return ""
    if any(isinstance(one, ast.Starred) for one in call.args):
        return ""
    return tracer_in_sight(program, Place(end.place.file, call.args[where]), depth + 1)


def _tracer_from_jit(
    program: Program, end: FunctionUse, node: ast.FunctionDef | ast.Lambda, index: int | None
) -> str:
    """Of a parameter of a function that is jitted: an argument that is not static."""
    wrapper = next(one for one in end.wrappers if one.effect == "staged")
    name = getattr(node, "name", "the lambda")
    if wrapper.api.startswith(_TRACING) and index is not None:
        return f"an argument of `{name}`, which {wrapper.name} traces"
    if len([one for one in end.wrappers if one.effect != "passed"]) > 1 or wrapper.api not in JITS:
        return ""
    for option in _jits_of_function(program, wrapper.place, node):
        static = setting_positions(option, "static", program.evaluator) if option is not None else None
        if static is None or index is None or index in static:
            return ""
    where = f"{wrapper.place.file.path.name}:{wrapper.place.line}"
    return f"an argument of `{name}`, which {wrapper.name} traces at {where}"


def _jits_of_function(
    program: Program, place: Place, node: ast.FunctionDef | ast.Lambda
) -> list[Jitted | None]:
    evaluator = program.evaluator
    if place.node in getattr(node, "decorator_list", ()):
        made = evaluator.apply_decorator(place, evaluator.definition_value(place.file, node))
    else:
        made = evaluator.value(place)
    return [jitted_value(option, evaluator, JIT_WRAPPERS) for option in options(made)]
