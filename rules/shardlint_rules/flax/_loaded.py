"""Weights that are read into the variables of a sharded NNX model, one by one, and not placed. For SL508."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import lookup
from shardlint.model.values import (
    CallResult,
    ClassValue,
    Function,
    Parameter,
    Place,
    Transformed,
    Value,
    options,
)
from shardlint.rules_api.rule import Certainty, Finding
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import names_in, walk
from shardlint_rules.flax.built import Annotated
from shardlint_rules.jit.leaf import given_in_sight

_MAKES = ("asarray", "array")
_PARTS = ("state", "to_flat_state", "iter_graph", "split", "flat_state", "flatten", "items")
# Whoever says these places what he reads, or has it placed.
_PLACES = regex(r"(?i)device|shard|place$|make_array|constrain")
_DEPTH = 8


def loaded(site: Site) -> Finding | None:
    """A finding for `variable.set_value(jnp.asarray(w))` and `variable.value = jnp.asarray(w)` of such a variable."""
    if not site.wants("loaded"):
        return None
    scope = site.scope.function()
    written = _written(site)
    if written is None or scope is None or not isinstance(scope.node, ast.FunctionDef):
        return None
    variable, given = written
    if not isinstance(given, ast.Call) or last_name(given.func) not in _MAKES or not given.args:
        return None
    if any(one.arg in (None, "device", "out_sharding") for one in given.keywords):
        return None
    own = names_in(given)
    if (isinstance(variable, ast.Name) and variable.id in own) or _places(scope.node):
        return None
    model = _model(site, variable, 0)
    if model is None or not any(_annotated(site, one, 0) for one in _given(site, model)):
        return None
    if not site.anywhere("set_mesh") and not site.anywhere("get_named_sharding"):
        return None
    name = site.shown(variable)
    return site.finding(
        site.file.statement(site.syntax),
        f"On {site.release('flax')} the variable takes the array as it is, whole on one device or on every one: what "
        "is read knows nothing of how the variable was split.",
        label=f"`{name}` gets another sharding",
        help=f"place it: jax.device_put({' '.join(site.text(given.args[0]).split())}, "
        f"{name}.get_value().sharding)",
        certainty=Certainty.POSSIBLE,
        form="loaded",
        why=f"callers give `{model.name}` a model whose variables are annotated, and nothing here places them",
    )


def _places(function: ast.FunctionDef) -> bool:
    """Whether a name, an attribute or a keyword of a function speaks of placing."""
    said = [one.id for one in walk(function) if isinstance(one, ast.Name)]
    said += [one.attr for one in walk(function) if isinstance(one, ast.Attribute)]
    said += [one.arg or "" for one in walk(function) if isinstance(one, ast.keyword | ast.arg)]
    return any(map(_PLACES.search, said))


def _written(site: Site) -> tuple[ast.Name | ast.Subscript, ast.expr] | None:
    """The variable that is written, a name or an item, and what it gets."""
    statement = site.file.statement(site.syntax)
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name() | ast.Subscript() as name, attr="set_value"), args=[given]
            )
        ) if statement.value is site.syntax:
            return name, given
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name() | ast.Subscript() as name, attr="value")], value=given
        ):
            return (name, given) if given is site.syntax else None
    return None


def _model(site: Site, node: ast.expr, depth: int) -> Parameter | None:
    """The parameter of whose state a variable is a part."""
    if depth > _DEPTH:
        return None
    match node:
        case ast.Name():
            bindings, _ = lookup(site.file, node, node.id)
            for one in bindings:
                if one.kind == "param":
                    found = options(site.value(node))
                    return (
                        next((value for value in found if isinstance(value, Parameter)), None)
                        if depth
                        else None
                    )
                if one.value is not None and isinstance(one.value, ast.expr):
                    return _model(site, one.value, depth + 1)
        case ast.Subscript(value=inner):
            return _model(site, inner, depth + 1)
        case ast.Call(func=ast.Attribute(value=inner, attr="items" | "values" | "flat_state"), args=[]):
            return _model(site, inner, depth + 1)
        case ast.Call(func=func, args=[first, *_]) if last_name(func) in (*_PARTS, "dict", "list"):
            return _model(site, first, depth + 1)
    return None


def _given(site: Site, model: Parameter) -> Iterator[Value]:
    """The models that the calls in sight give."""
    file = model.place.file
    function = file.home(model.place.node).node
    if isinstance(function, ast.FunctionDef):
        for end, _, given in given_in_sight(site.program, file, function, model.name):
            if isinstance(given.node, ast.Name) and _placed_after(end.place, given.node.id):
                continue
            yield from options(site.program.followed(site.program.value(given.file, given.node)))


def _placed_after(call: Place, name: str) -> bool:
    """Whether something places a name after a call, in the function that the call stands in."""
    file = call.file
    line = getattr(call.node, "lineno", 0)
    later = [one for one in file.walked(file.home(call.node)).calls if one.lineno > line]
    return any(
        _PLACES.search(file.text(one))
        and any(isinstance(part, ast.Name) and part.id == name for part in walk(one))
        for one in later
    )


def _annotated(site: Site, value: Value, depth: int) -> bool:
    """Whether a value is a model with annotated variables, through the functions that make it."""
    if depth > _DEPTH or not isinstance(value, CallResult):
        return False
    made = value.by
    while isinstance(made, Transformed):
        made = made.inner
    if isinstance(made, ClassValue):
        return Annotated(site.program).annotation(CallResult(made, value.call)) is not None or _says(made)
    if not isinstance(made, Function):
        return False
    return any(_annotated(site, one, depth + 1) for one in Annotated(site.program).built(made))


def _says(made: ClassValue) -> bool:
    """Whether a class says of an initializer, also one that it hands to a function, how the variable is split."""
    return any(word in made.place.text() for word in ("with_partitioning", "with_metadata"))
