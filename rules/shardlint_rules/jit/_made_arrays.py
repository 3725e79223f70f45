"""The arrays that a function makes, where its text writes them out, each with the sharding that a tree has for it."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import replace

from shardlint.model.shapes import Shape, shape_of
from shardlint.model.values import (
    CallResult,
    Constant,
    Environment,
    Function,
    Items,
    Place,
    Table,
    Transformed,
    Unknown,
    Value,
)
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.bindings import lookup_bindings

_DEPTH = 8
_VMAPS = ("jax.vmap", "equinox.filter_vmap")
_SPLIT = "jax.random.split"


@dataclass(frozen=True)
class MadeArray:
    """An array that is made at a place in one call of its function. `stacked`: the sizes that vmap puts in front."""

    place: Place
    environment: Environment | None
    sharding: Value
    stacked: Shape = ()

    def array_shape(self, site: Site) -> Shape | None:
        """Its shape, as far as it is told."""
        own = shape_of(site.program.evaluator, self.place, self.environment)
        return (*self.stacked, *own) if own is not None else None


def find_returned_arrays(
    site: Site, function: Function, environment: Environment | None, shardings: Value
) -> Iterator[MadeArray]:
    """Yield the arrays that a function returns. One sharding may be for all of them."""
    for node in _return_expressions(function):
        yield from arrays_in_tree(site, MadeArray(Place(function.place.file, node), environment, shardings))


def arrays_in_tree(site: Site, made_array: MadeArray) -> Iterator[MadeArray]:
    """The arrays of a tree, as far as the text says how it is made."""
    yield from _split_returned_tree(site, made_array, _DEPTH)


def _return_expressions(function: Function) -> list[ast.expr]:
    """Return the results of a lambda, or of a function with one `return`."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return [node.body]
    file = function.place.file
    returns = file.walk_scope(file.scope(node)).returns
    if isinstance(node, ast.AsyncFunctionDef) or len(returns) != 1:
        return []
    only = returns[0]
    return [only.value] if isinstance(only, ast.Return) and only.value is not None else []


def _split_returned_tree(site: Site, whole: MadeArray, depth: int) -> Iterator[MadeArray]:
    if depth == 0:
        return
    node, file = whole.place.node, whole.place.file
    sharding = site.program.evaluator.trees.expand_tree_map(whole.sharding)
    whole = replace(whole, sharding=sharding)
    if not isinstance(sharding, CallResult | Items | Table):
        return
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            if any(isinstance(one, ast.Starred) for one in parts):
                return
            for part, one in zip(parts, _shardings_of_elements(sharding, len(parts)), strict=False):
                yield from _split_returned_tree(
                    site, replace(whole, place=Place(file, part), sharding=one), depth - 1
                )
        case ast.Dict(keys=keys, values=values):
            for key, part in zip(keys, values, strict=True):
                name = site.program.value(file, key) if key is not None else None
                own = _sharding_at_key(sharding, name)
                if own is not None and key is not None:
                    yield from _split_returned_tree(
                        site, replace(whole, place=Place(file, part), sharding=own), depth - 1
                    )
        case ast.Name():
            bindings, scope = lookup_bindings(file, node, node.id)
            value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
            if value is not None and scope is file.evaluation_scope(node):
                yield from _split_returned_tree(site, replace(whole, place=Place(file, value)), depth - 1)
            elif isinstance(sharding, CallResult):
                yield whole
        case ast.Call():
            yield from _arrays_from_call(site, whole, depth - 1)
        case ast.expr() if isinstance(sharding, CallResult):
            yield whole


def _shardings_of_elements(sharding: Value, count: int) -> tuple[Value, ...]:
    """The shardings for the parts of a sequence."""
    if isinstance(sharding, CallResult):
        return (sharding,) * count
    return sharding.items if isinstance(sharding, Items) and not sharding.open and len(sharding.items) == count else ()


def _sharding_at_key(sharding: Value, key: Value | None) -> Value | None:
    """The sharding for what stands under a key."""
    if isinstance(sharding, CallResult):
        return sharding
    return sharding.value_under(key.value) if isinstance(sharding, Table) and isinstance(key, Constant) else None


def _arrays_from_call(site: Site, made_array: MadeArray, depth: int) -> Iterator[MadeArray]:
    """Yield the arrays returned by a called function of the project, also through vmap. Any other call makes one
    array.
    """
    evaluator, env = site.program.evaluator, made_array.environment
    node, file = made_array.place.node, made_array.place.file
    assert isinstance(node, ast.Call)
    callee = evaluator.value(Place(file, node.func), env)
    if isinstance(callee, Function):
        if env is None and is_nested(callee):
            return  # of the function around it nothing is known
        inner = evaluator.bind_parameters(callee, evaluator.read_arguments(made_array.place, env))
        yield from _arrays_in_function(
            site, replace(made_array, environment=merge_environments(inner, env)), callee, depth
        )
    elif isinstance(callee, Transformed) and callee.api.name in _VMAPS and isinstance(callee.inner, Function):
        told = callee.call
        plain = told is None or (not told.keywords and not told.open_keywords and len(told.positional) <= 1)
        if not plain or len(node.args) != 1 or node.keywords:
            return
        size = _leading_size(site, Place(file, node.args[0]), env)
        each = Environment({one.arg: Unknown("one of many") for one in callee.inner.node.args.args})
        known = merge_environments(each, env) if env is not None else None
        stacked = replace(made_array, environment=known, stacked=(*made_array.stacked, size))
        yield from _arrays_in_function(site, stacked, callee.inner, depth)
    elif isinstance(made_array.sharding, CallResult):
        yield made_array


def _arrays_in_function(site: Site, made_array: MadeArray, function: Function, depth: int) -> Iterator[MadeArray]:
    """Yield the arrays in the return values of a function."""
    for node in _return_expressions(function):
        yield from _split_returned_tree(site, replace(made_array, place=Place(function.place.file, node)), depth)


def is_nested(function: Function) -> bool:
    """Return whether a function is made in another, and may use its parameters."""
    parent = function.place.file.scope(function.node).parent
    return parent is not None and parent.enclosing_function() is not None


def merge_environments(inner: Environment, outer: Environment | None) -> Environment:
    """The parameters of a function with those of the one around it in sight."""
    return Environment(ChainMap({}, inner.values, outer.values)) if outer is not None else inner  # type: ignore[arg-type]


def _leading_size(site: Site, place: Place, env: Environment | None) -> int | None:
    """The size of the first dimension of what is mapped over: keys, mostly."""
    node, file, evaluator = place.node, place.file, site.program.evaluator
    if isinstance(node, ast.Name):
        bindings, scope = lookup_bindings(file, node, node.id)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        return (
            _leading_size(site, Place(file, value), env)
            if value is not None and scope is file.evaluation_scope(node)
            else None
        )
    if isinstance(node, ast.Call):
        value_of = evaluator.value(Place(file, node.func), env)
        if getattr(value_of, "name", "") == _SPLIT:
            given = evaluator.read_arguments(place, env).argument_for("num", ("key", "num"))
            if given is None:
                return 2 if len(node.args) == 1 and not node.keywords else None
            count = evaluator.value(given, env)
            return count.value if isinstance(count, Constant) and type(count.value) is int else None
    shape = shape_of(evaluator, place, env)
    return shape[0] if shape else None
