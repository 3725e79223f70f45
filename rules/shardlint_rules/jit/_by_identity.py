"""Objects that are equal to nothing but themselves, made anew in each turn of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardlint.model import Program
from shardlint.model.values import Api, ClassValue, Function, Value, options
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.repeated import Loop

_COMPARES = ("__eq__", "__hash__")
_DEPTH = 4


def made_anew(program: Program, file: FileFacts, loop: Loop, node: ast.expr) -> str:
    """What an argument of a call in a loop is made as in each turn, if that is equal to nothing else; or nothing.

    A lambda, a partial, or an instance of a class of the project without `__eq__`, also by a name that the loop gives
    it, or from a function that makes one in each call.
    """
    if isinstance(node, ast.Name):
        given = [
            one.value
            for one in walk(loop)
            if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == node.id for to in one.targets)
        ]
        if len(given) != 1 or len(file.bindings(file.home(node), node.id)) != 1:
            return ""
        node = given[0]
    if isinstance(node, ast.Lambda):
        return "a lambda"
    if not isinstance(node, ast.Call) or not any(one is node for one in walk(loop)):
        return ""
    called = options(program.value(file, node.func))
    if len(called) != 1:
        return ""
    match called[0]:
        case Api(name="functools.partial"):
            return "a partial"
        case ClassValue() as made if _by_identity(program, made, _DEPTH):
            return f"a `{made.node.name}`"
        case Function(node=ast.FunctionDef() as function, place=place) if not function.decorator_list:
            made_there = set(_returned(program, place.file, function))
            return next(iter(made_there)) if len(made_there) == 1 else ""
    return ""


def _returned(program: Program, file: FileFacts, function: ast.FunctionDef) -> Iterator[str]:
    """What each `return` of a function makes; "" where it may be something that was there before."""
    returns = [one.value for one in walk(function) if isinstance(one, ast.Return)]
    if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in walk(function)) or not returns:
        yield ""
    for value in returns:
        made: Sequence[Value] = options(program.value(file, value.func)) if isinstance(value, ast.Call) else ()
        one = made[0] if len(made) == 1 else None
        known = isinstance(one, ClassValue) and _by_identity(program, one, _DEPTH)
        yield f"a `{one.node.name}`" if known and isinstance(one, ClassValue) else ""


def _by_identity(program: Program, made: ClassValue, depth: int) -> bool:
    """Whether instances of a class are equal to themselves alone: nothing in it, or in what it inherits, says else."""
    node = made.node
    if node.decorator_list or node.keywords or depth == 0:
        return False
    for member in node.body:
        names = [member.name] if isinstance(member, ast.FunctionDef) else []
        names += [one.id for one in getattr(member, "targets", ()) if isinstance(one, ast.Name)]
        if any(name in (*_COMPARES, "__new__") for name in names):
            return False
    for base in node.bases:
        found = options(program.value(made.place.file, base))
        one = found[0] if len(found) == 1 else None
        plain = isinstance(base, ast.Name) and base.id == "object"
        if not plain and not (isinstance(one, ClassValue) and _by_identity(program, one, depth - 1)):
            return False
    return True

