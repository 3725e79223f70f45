"""Origins of a value: back through the names, steps and callers that an expression comes through."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.function_uses import FunctionUse
from shardlint.model.values import (
    CallArguments,
    ClassValue,
    Function,
    Parameter,
    Place,
    Unknown,
    Value,
    options,
)
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings

_DEPTH = 4
_CALLS = 8
_PATH_CALLS = 3
# A function called through these has the parameters it was written with.
_SAME_PARAMETERS = (
    "jit",
    "pjit",
    "filter_jit",
    "checkpoint",
    "remat",
    "filter_checkpoint",
    "lru_cache",
    "cache",
)
# What gives the arrays of a model as they are, among others.
_PARTING = ("partition", "split", "filter")


def value_origins(program: Program, place: Place, depth: int = 0) -> Iterator[Value]:
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
            for given in list(_arguments_from_callers(program, one))[:_CALLS]:
                yield from value_origins(program, given, depth + 1)
    for whole in _enclosing_tree(place.file, place.node):
        yield from value_origins(program, whole, depth + 1)


def _arguments_from_callers(program: Program, parameter: Parameter) -> Iterator[Place]:
    """The arguments that the calls in sight give for a parameter."""
    file = parameter.place.file
    function = file.evaluation_scope(parameter.place.node).node
    if not isinstance(function, ast.FunctionDef):
        return
    for end, arguments, given in visible_argument_values(program, file, function, parameter.name):
        if not end.wrappers and not arguments.open_positional:
            yield given


def visible_argument_values(
    program: Program, file: FileFacts, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> Iterator[tuple[FunctionUse, CallArguments, Place]]:
    """The calls in sight of a function that give a parameter, with all they give and with what they give it."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    for end in program.flow.in_sight(file, function).found:
        if end.kind == "called" and isinstance(end.place.node, ast.Call):
            arguments = program.evaluator.read_arguments(end.place)
            given = arguments.argument_for(name, tuple(names))
            if given is not None:
                yield end, arguments, given


def _enclosing_tree(file: FileFacts, node: ast.AST) -> Iterator[Place]:
    """The tree that an expression is a part of, or that its name was before."""
    match node:
        case ast.Subscript(value=inner):
            yield Place(file, inner)
        case ast.Attribute(value=ast.Name(id=name) as inner) if name not in ("self", "cls"):
            yield Place(file, inner)
        case ast.Attribute(value=ast.Attribute() | ast.Subscript() as inner):
            yield Place(file, inner)
        case ast.Name():
            yield from _name_before_rebinding(file, node)


def _name_before_rebinding(file: FileFacts, use: ast.Name) -> Iterator[Place]:
    """The name as it is given to the call that makes it anew."""
    bindings, _ = lookup_bindings(file, use, use.id)
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
                earlier = [one for one in lookup_bindings(file, given, given.id)[0] if one is not binding]
                yield from (
                    Place(file, one.value)
                    for one in earlier
                    if one.kind == "assign" and isinstance(one.value, ast.expr)
                )
                if any(one.kind == "param" for one in earlier):
                    yield Place(file, given)


def values_on_paths(program: Program, value: Value, depth: int = _PATH_CALLS) -> list[Value]:
    """Return the values of an expression on each visible path. A parameter is followed to the arguments of its
    calls.
    """
    if isinstance(value, Parameter) and depth > 0:
        return [
            one
            for given in _values_from_callers(program, value)
            for one in values_on_paths(program, given, depth - 1)
        ]
    return [value]


def _values_from_callers(program: Program, parameter: Parameter) -> Iterator[Value]:
    file = parameter.place.file
    scope = file.evaluation_scope(parameter.place.node)
    node = scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or scope.parent is None:
        return
    owner = ClassValue(Place(file, scope.parent.node)) if scope.parent.kind == "class" else None
    function = Function(Place(file, node), owner is not None, owner)
    for end in program.flow.ends(file, node).found:
        plain = all(one.api.rpartition(".")[2] in _SAME_PARAMETERS for one in end.wrappers)
        if end.kind != "called" or not plain or not isinstance(end.place.node, ast.Call):
            continue
        arguments = program.evaluator.read_arguments(end.place)
        value = program.evaluator.bind_parameter(function, arguments, parameter.name)
        if value is not None:
            yield value
