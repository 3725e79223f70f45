"""What is given to a `pmap` as one copy for each device: split by the call, and the same on all of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.held import stored
from shardlint.model.reach import lookup
from shardlint.model.values import CallResult, ClassValue, Function, Place, options
from shardlint.syntax import FileFacts, Scope

if TYPE_CHECKING:
    from shardlint.model import Program

_ALIKE = ("broadcast_to", "zeros", "ones", "full")
_HANDS_ON = ("array", "asarray", "device_put", "device_put_sharded", "stack")
_DEPTH = 5


def is_copies(program: Program, file: FileFacts, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is copies of one thing, on all ways to it."""
    return copied_at(program, file, node, depth) is not None


def copied_at(program: Program, file: FileFacts, node: ast.AST, depth: int = 0) -> Place | None:
    """Where the copies are made that an expression is on all ways to it."""
    if depth > _DEPTH:
        return None
    match node:
        case ast.Name():
            found = lookup(file, node, node.id)[0]
            made = [
                copied_at(program, file, one.value, depth + 1)
                if one.kind == "assign" and one.value is not None
                else None
                for one in found
            ]
            return made[0] if made and None not in made else None
        case ast.BinOp(op=ast.Mult()) if isinstance(node.left, ast.List) or isinstance(node.right, ast.List):
            return Place(file, node)
        case ast.Call(args=[first, *_]):
            name = file.text(node.func).rsplit(".", 1)[-1].lower()
            if name in _ALIKE or ("replicat" in name and "unreplicat" not in name):
                return Place(file, node)
            if name in ("map", "tree_map") and isinstance(first, ast.Lambda):
                return copied_at(program, file, first.body, depth + 1)
            if name in _HANDS_ON:
                return copied_at(program, file, first, depth + 1)
    return _returned(program, file, node, depth) if isinstance(node, ast.Call) else None


def _returned(program: Program, file: FileFacts, call: ast.Call, depth: int) -> Place | None:
    """Where a function of the project makes the copies that it returns."""
    found = options(program.value(file, call.func))
    function = found[0] if len(found) == 1 else None
    if not isinstance(function, Function) or not isinstance(function.node, ast.FunctionDef):
        return None
    inside = function.place.file
    returns = [one.value for one in inside.walked(inside.scope(function.node)).returns]
    made = [copied_at(program, inside, one, depth + 1) if one is not None else None for one in returns]
    return made[0] if made and None not in made else None


def carried_copies(program: Program, place: Place, steps: tuple[Function, ...]) -> bool:
    """Whether what a pmapped function is given is copies of one thing, or what that function made of them.

    On all ways to it, of which one at least is copies: `state = replicate(state)` above a loop of
    `state, loss = step(state, batch)`. `steps` are that function and those around the calls that led here.
    """
    file, given = place.file, place.node
    if len(steps) > _DEPTH:
        return False
    values: list[tuple[ast.expr, bool]] = []
    if isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name) and given.value.id == "self":
        cls = next((one for one in file.ancestors(given) if isinstance(one, ast.ClassDef)), None)
        values = [(one, True) for one in stored(file, cls, given.attr)] if cls is not None else []
    elif isinstance(given, ast.Name):
        bindings, scope = lookup(file, given, given.id)
        kinds = {one.kind for one in bindings}
        if kinds & {"param"} and scope is not None and not _copied_by_callers(program, file, scope, given.id, steps):
            return False
        if kinds - {"param", "assign", "unpack"}:
            return False
        values = [(one.value, one.kind == "assign") for one in bindings if one.value is not None]
        if kinds & {"param"}:
            return all(_calls(program, file, value, steps) for value, _ in values)
    made = [alone and copied_at(program, file, value) is not None for value, alone in values]
    return any(made) and all(
        one or _calls(program, file, value, steps) for one, (value, _) in zip(made, values, strict=True)
    )


def _copied_by_callers(
    program: Program, file: FileFacts, scope: Scope, name: str, steps: tuple[Function, ...]
) -> bool:
    """Whether all calls of a function give copies for one of its parameters."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef) or (scope.parent is not None and scope.parent.kind == "class"):
        return False
    ends, names = program.flow.ends(file, node), [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    calls = [end.place for end in ends.found if end.kind == "called"]
    if not ends.complete or not calls or name not in names:
        return False
    around = (*steps, Function(Place(file, node)))
    given = [program.evaluator.arguments(call).get(name, tuple(names)) for call in calls]
    return all(one is not None and carried_copies(program, one, around) for one in given)


def calls_of(program: Program, step: Function) -> list[Place]:
    """The calls in sight of a pmapped function; of a method also those of copies of an object of its class."""
    file = step.place.file
    found = [end.place for end in program.flow.ends(file, step.node).found if end.kind == "called"]
    cls = file.parent(step.node)
    if found or not isinstance(cls, ast.ClassDef) or not isinstance(step.node, ast.FunctionDef):
        return found
    for mention in file.mentions(step.node.name):
        call = file.parent(mention)
        if isinstance(mention, ast.Attribute) and isinstance(call, ast.Call) and call.func is mention:
            if isinstance(mention.value, ast.Name) and _holds(program, file, mention.value, cls):
                found.append(Place(file, call))
    return found


def _holds(program: Program, file: FileFacts, name: ast.Name, cls: ast.ClassDef) -> bool:
    """Whether a name is bound to copies of an object of a class."""
    for binding in lookup(file, name, name.id)[0]:
        made = binding.value
        if binding.kind == "assign" and isinstance(made, ast.Call) and made.args:
            if copied_at(program, file, made) is not None:
                given = options(program.value(file, made.args[0]))
                of = [one.by.node for one in given if isinstance(one, CallResult) and isinstance(one.by, ClassValue)]
                if cls in of:
                    return True
    return False


def _calls(program: Program, file: FileFacts, node: ast.expr, steps: tuple[Function, ...]) -> bool:
    """Whether an expression is a call of one of these functions."""
    if not isinstance(node, ast.Call):
        return False
    for step in steps:
        method = isinstance(step.place.file.parent(step.node), ast.ClassDef)
        if method and isinstance(node.func, ast.Attribute) and isinstance(step.node, ast.FunctionDef):
            if node.func.attr == step.node.name:
                return True
        found = program.flow.ends(step.place.file, step.node).found
        if any(end.kind == "called" and end.place.node is node for end in found):
            return True
    return False
