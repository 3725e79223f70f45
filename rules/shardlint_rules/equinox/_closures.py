"""Variables that a function takes from around it and that were placed on a mesh: for SL105."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardlint.facts.shardings import is_sharding
from shardlint.model import api
from shardlint.model.signatures import parameters_of_definition
from shardlint.model.values import Api, CallResult, Function, Place, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import walk_nodes

# Reading these needs no array.
_FACTS = ("shape", "dtype", "ndim", "size", "sharding", "itemsize", "nbytes", "aval", "weak_type")
# These read nothing else of their first argument, or are given it abstract.
_ASKING = frozenset(
    [f"builtins.{name}" for name in ("len", "isinstance", "type", "id", "hasattr")]
    + [
        f"{module}.{name}"
        for module in ("jax.numpy", "numpy")
        for name in ("shape", "ndim", "size", "zeros_like", "ones_like", "empty_like", "full_like", "result_type")
    ]
    + ["jax.typeof", "jax.tree.structure", "jax.lax.full_like", "jax.numpy.isdtype"]
)
_ABSTRACT = ("jax.make_jaxpr", *(name for name, one in api.TRANSFORMS.items() if one.effect == "abstract"))
# Methods of linen Modules and optimizers, whose results hold nothing of the arrays they are given but shapes.
_MAKING = ("init", "lazy_init", "tabulate")
_DEPTH = 3
# What puts an array somewhere, and the parameter that says where.
_PLACING = {"jax.device_put": "device", "equinox.filter_shard": "device_or_shardings"}


@dataclass(frozen=True)
class Carried:
    """A variable and the line at which it was placed."""

    name: str
    line: int


def find_carried_array(site: Site, function: Value) -> Carried | None:
    """The first variable in a function's text that holds an array split over a mesh outside of it."""
    if not isinstance(function, Function) or function.place.file is not site.file:
        return None
    file = site.file
    top = file.scope(function.node)
    inside = list(file.inner_scopes(top))
    for node in _body_nodes(function.node):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        bindings, owner = lookup_bindings(file, node, node.id)
        if owner is None or owner in inside or len(bindings) != 1 or node.id in file.rebound_globals:
            continue
        line = line_of_split(site, site.value(node))
        if line is not None and not _reads_shape_only(site, Place(file, node)):
            return Carried(node.id, line)
    return None


def _body_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.AST]:
    """The nodes of a body, in text order. Defaults and decorators are evaluated outside."""
    parts = [function.body] if isinstance(function, ast.Lambda) else function.body
    nodes = [node for part in parts for node in walk_nodes(part)]
    return sorted(nodes, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))


def _reads_shape_only(site: Site, place: Place, depth: int = _DEPTH) -> bool:
    """Return whether a use of an array needs only its shape or type, so that the compiled program does not hold it."""
    file, node = place.file, place.node
    parent = file.parent(node)
    match parent:
        case ast.Attribute(attr=attr) if attr in _FACTS:
            return True
        case ast.Compare(ops=ops) if all(isinstance(op, ast.Is | ast.IsNot) for op in ops):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if depth:
            return _all_read_shape(site, Place(file, parent), name, depth)
        case ast.keyword() | ast.Call():
            call = parent if isinstance(parent, ast.Call) else file.parent(parent)
            if isinstance(call, ast.Call) and node is not call.func:
                if _takes_shape_only(site, file, call, node, depth):
                    return True
    return any(_is_abstract(site, file, outer) for outer in file.ancestors(node))


def _all_read_shape(site: Site, place: Place, name: str, depth: int) -> bool:
    """Return whether all reads of a name in the scope of a place need only the shape."""
    uses = place.file.mentions_in(place.scope, name)
    reads = [use for use in uses if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load)]
    return all(_reads_shape_only(site, Place(place.file, read), depth - 1) for read in reads)


def _takes_shape_only(site: Site, file: FileFacts, call: ast.Call, node: ast.AST, depth: int) -> bool:
    """Return whether a call needs only the shape of one of its arguments."""
    callees = options(site.program.value(file, call.func))
    arguments = site.program.evaluator.read_arguments(Place(file, call))
    if all(isinstance(one, Api) and one.name == "jax.tree.map" for one in callees) and arguments.positional:
        callees = options(site.program.evaluator.value(arguments.positional[0]))
        arguments = replace(arguments, positional=arguments.positional[1:], keywords={})
    for callee in callees:
        if isinstance(callee, Function) and depth:
            parameters = parameters_of_definition(callee.node)
            bound = (parameters.without_first() if callee.bound else parameters).bind_arguments(arguments) or {}
            names = [name for name, given in bound.items() if given.node is node]
            body = callee.node.body
            inside = Place(callee.place.file, body[0] if isinstance(body, list) else body)
            if not names or not all(_all_read_shape(site, inside, name, depth) for name in names):
                return False
        elif isinstance(callee, Api) and callee.name in _ASKING:
            if not arguments.positional or arguments.positional[0].node is not node:
                return False
        elif isinstance(callee, Function) or not (
            isinstance(call.func, ast.Attribute) and call.func.attr in _MAKING
        ):
            return False
    return bool(callees)


def _is_abstract(site: Site, file: FileFacts, outer: ast.AST) -> bool:
    """Return whether code runs on shapes alone: in an argument of `eval_shape`, or in a function that only it is given.
    """
    if isinstance(outer, ast.Call):
        callees = options(site.program.value(file, outer.func))
        return all(isinstance(one, Api) and one.name in _ABSTRACT for one in callees)
    if not isinstance(outer, ast.FunctionDef):
        return False
    uses = [use for use in file.find_mentions(outer.name) if isinstance(use, ast.Name)]
    return bool(uses) and all(
        isinstance(call := file.parent(use), ast.Call) and _is_abstract(site, file, call) for use in uses
    )


def line_of_split(site: Site, value: Value) -> int | None:
    """The line of the call that split the value over a mesh of Auto axes, if it surely did."""
    if len(options(value)) != 1 or not isinstance(value, CallResult) or value.call is None:
        return None
    name = _PLACING.get(value.api)
    target = value.call.argument_for(name, api.SIGNATURES[value.api]) if name is not None else None
    if target is None or value.call.place.file is not site.file or _is_in_traced_code(site, value.call.place):
        return None
    where = site.program.evaluator.value(target, value.call.environment)
    if not is_sharding(where) or not site.shardings.is_on_auto_mesh(where):
        return None
    for option in options(where):
        parts = site.sharding_parts(option)
        spec = site.spec_of(parts[1]) if parts is not None else None
        if spec is None or not any(entry.axes for entry in spec.entries):
            return None
    return value.call.place.line


def _is_in_traced_code(site: Site, place: Place) -> bool:
    return site.program.region(place.file, place.node).traced in ("always", "sometimes")
