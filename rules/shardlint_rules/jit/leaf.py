"""The trees that a function is mapped over: what the leaf is that its parameter stands for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.ends import End
from shardlint.model.evaluator.trees import MAPS
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallArguments, Function, Parameter, Place, Unknown, Value, options
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name

_DEPTH = 4
_CALLS = 8
# What gives the arrays of a model as they are, among others.
_PARTING = ("partition", "split", "filter")
_MAPPING = ("map", "tree_map", "map_with_path", "tree_map_with_path")


def leaves_of(site: Site, node: ast.expr) -> Iterator[tuple[Place, ast.Call]]:
    """The trees of which a name is a leaf, each with the `tree.map` that goes over it."""
    if not isinstance(node, ast.Name):
        return
    for outer in site.file.ancestors(node):
        if isinstance(outer, ast.Lambda | ast.FunctionDef):
            names = [one.arg for one in (*outer.args.posonlyargs, *outer.args.args)]
            if node.id in names:
                for place in _uses(site, outer):
                    yield from _tree(site, place, names.index(node.id))
                return


def _uses(site: Site, function: ast.Lambda | ast.FunctionDef) -> Iterator[Place]:
    """Where a function is handed on: itself, or by its name in this file."""
    if isinstance(function, ast.Lambda):
        yield Place(site.file, function)
        return
    for use in site.file.mentions(function.name):
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
            found = options(site.value(use))
            if any(isinstance(one, Function) and one.place.node is function for one in found):
                yield Place(site.file, use)


def _tree(site: Site, use: Place, index: int) -> Iterator[tuple[Place, ast.Call]]:
    call = use.file.parent(use.node)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not use.node:
        return
    if last_name(call.func) == "partial" and len(call.args) == 1:
        use = Place(use.file, call)
        yield from _tree(site, use, index)
        return
    if last_name(call.func) not in _MAPPING:
        return
    for one in options(site.program.value(use.file, call.func)):
        if isinstance(one, Api) and one.name in MAPS:
            at = index + 1 - len(MAPS[one.name])
            if 1 <= at < len(call.args) and not any(isinstance(arg, ast.Starred) for arg in call.args[: at + 1]):
                yield Place(use.file, call.args[at]), call
                return


def array_values(site: Site, node: ast.expr) -> Iterator[Value]:
    """Yield the values of an array: the expression itself, with the values from callers, or the tree of which it is a
    leaf.
    """
    trees = [place for place, _ in leaves_of(site, node)]
    for place in trees or [Place(site.file, node)]:
        yield from origins(site.program, place)


def seems_spread(site: Site, value: Value) -> bool:
    """Return whether an array, whatever made it, is placed by a sharding that may shard it."""
    return all(site.shardings.seems_spread(one) for one in options(value))


def origins(program: Program, place: Place, depth: int = 0) -> Iterator[Value]:
    """Yield the values of an expression, as far as they are visible.

    Of parameters it is what the calls in sight give them, and of what a step makes of a name it is what the name was
    before: `params, loss = step(params, batch)` leaves them where they are.
    """
    value = program.value(place.file, place.node)
    followed = program.followed(value)
    unknown = [one for one in options(followed) if isinstance(one, Unknown | Parameter)]
    mixed = len(unknown) < len(options(followed)) and any(isinstance(one, Parameter) for one in unknown)
    if not unknown or mixed or depth > _DEPTH:
        yield followed
        return
    yield from (one for one in options(followed) if one not in unknown)
    for one in options(value):
        if isinstance(one, Parameter):
            for given in list(_given(program, one))[:_CALLS]:
                yield from origins(program, given, depth + 1)
    for whole in _whole(place.file, place.node):
        yield from origins(program, whole, depth + 1)


def _given(program: Program, parameter: Parameter) -> Iterator[Place]:
    """The arguments that the calls in sight give for a parameter."""
    file = parameter.place.file
    function = file.home(parameter.place.node).node
    if not isinstance(function, ast.FunctionDef):
        return
    for end, arguments, given in given_in_sight(program, file, function, parameter.name):
        if not end.wrappers and not arguments.open_positional:
            yield given


def given_in_sight(
    program: Program, file: FileFacts, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> Iterator[tuple[End, CallArguments, Place]]:
    """The calls in sight of a function that give a parameter, with all they give and with what they give it."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    for end in program.flow.in_sight(file, function).found:
        if end.kind == "called" and isinstance(end.place.node, ast.Call):
            arguments = program.evaluator.arguments(end.place)
            given = arguments.get(name, tuple(names))
            if given is not None:
                yield end, arguments, given


def _whole(file: FileFacts, node: ast.AST) -> Iterator[Place]:
    """The tree that an expression is a part of, or that its name was before."""
    match node:
        case ast.Subscript(value=inner):
            yield Place(file, inner)
        case ast.Attribute(value=ast.Name(id=name) as inner) if name not in ("self", "cls"):
            yield Place(file, inner)
        case ast.Attribute(value=ast.Attribute() | ast.Subscript() as inner):
            yield Place(file, inner)
        case ast.Name():
            yield from _before(file, node)


def _before(file: FileFacts, use: ast.Name) -> Iterator[Place]:
    """The name as it is given to the call that makes it anew."""
    bindings, _ = lookup(file, use, use.id)
    for binding in bindings:
        call = binding.value
        match binding.kind, call:
            case (
                "comprehension" | "for",
                ast.Call(func=ast.Attribute(value=inner, attr="items" | "values"), args=[]),
            ):
                yield Place(file, inner)
            case "comprehension" | "for", ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
                yield Place(file, inner)
            case "comprehension" | "for", ast.Attribute() | ast.Name() | ast.Subscript():
                yield Place(file, call)
            case "assign", ast.Attribute() | ast.Subscript():
                yield Place(file, call)
        if binding.kind not in ("assign", "unpack") or not isinstance(call, ast.Call) or use in call.args:
            continue
        if last_name(call.func) in _PARTING and call.args and isinstance(call.args[0], ast.Name | ast.Attribute):
            yield Place(file, call.args[0])
        for given in (*call.args, *(one.value for one in call.keywords)):
            if isinstance(given, ast.Name) and given.id == use.id:
                earlier = [one for one in lookup(file, given, given.id)[0] if one is not binding]
                yield from (
                    Place(file, one.value)
                    for one in earlier
                    if one.kind == "assign" and isinstance(one.value, ast.expr)
                )
                if any(one.kind == "param" for one in earlier):
                    yield Place(file, given)
