"""What one copy was taken of already, so that it has no dimension for the devices any more."""

from __future__ import annotations

import ast

from shardlint.model import Program
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, Place, options
from shardlint.syntax import Binding, FileFacts
from shardlint_rules.processes.given import given, given_by_all

UNREPLICATE = "flax.jax_utils.unreplicate"
_DEPTH = 6


def one_copy(program: Program, file: FileFacts, node: ast.AST, depth: int = 0) -> Place | None:
    """Where `unreplicate` made an expression, on all ways to it, or what it is a part of; None where it is not sure."""
    if depth > _DEPTH:
        return None
    match node:
        case ast.Name():
            bindings, _ = lookup(file, node, node.id)
            return _agreed([_bound(program, file, one, depth + 1) for one in bindings])
        case ast.Attribute() | ast.Subscript(slice=ast.Constant(value=str())):
            return one_copy(program, file, node.value, depth + 1)
        case ast.Call(func=ast.Attribute(value=inner, attr="replace")):
            return one_copy(program, file, inner, depth + 1)
        case ast.Call():
            return _called(program, file, node, depth)
    return None


def _called(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Place | None:
    found = options(program.value(file, call.func))
    match found[0] if len(found) == 1 else None:
        case Api(name=name) if name == UNREPLICATE:
            return Place(file, call)
        case Api(name="jax.device_get") if len(call.args) == 1:
            return one_copy(program, file, call.args[0], depth + 1)
        case Function(place=place, node=ast.FunctionDef() as inner):
            inside = place.file
            returns = [one.value for one in inside.walked(inside.scope(inner)).returns]
            return _agreed(
                [one_copy(program, inside, one, depth + 1) if one is not None else None for one in returns]
            )
    return None


def _bound(program: Program, file: FileFacts, binding: Binding, depth: int) -> Place | None:
    if binding.kind == "param":
        places = given_by_all(program, file, binding.scope, binding.name)
        if places is None and binding.scope.parent is not None and binding.scope.parent.kind == "class":
            places = list(given(program, file, binding.scope, binding.name))  # of a method, those in sight
        return _agreed([one_copy(program, one.file, one.node, depth + 1) for one in places or ()])
    if binding.kind in ("assign", "walrus") and binding.value is not None:
        return one_copy(program, file, binding.value, depth)
    return None


def _agreed(found: list[Place | None]) -> Place | None:
    return found[0] if found and None not in found else None
