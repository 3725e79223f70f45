"""Functions of the project that donate what they are given: `def run(state, batch): return step(state, batch)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from shardlint.facts.lifetime.donating_calls import Argument, DonatingCall
from shardlint.model.signatures import parameters_of_definition
from shardlint.model.values import CallArguments, Function, Place
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk_nodes

# A loop that never runs is of no interest; a branch may be one that is never taken.
_STRAIGHT = (ast.With, ast.AsyncWith, ast.For, ast.While, ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)


def donations_in_body(
    find_donations: Callable[[FileFacts, ast.Call], DonatingCall | None],
    file: FileFacts,
    function: Function,
    arguments: CallArguments,
) -> Iterator[tuple[DonatingCall, Argument, ast.expr]]:
    """The donations of a function's parameters, on its straight way: the call, and what a caller gave for each."""
    node = function.node
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or not function.place.file.contains_text("donate"):
        return
    parameters = parameters_of_definition(node)
    given = (parameters.without_first() if function.bound else parameters).bind_arguments(arguments)
    if given is None:
        return
    inside = function.place.file
    for call in inside.walk_scope(inside.scope(node)).calls:
        names = [
            one.id for one in (*call.args, *(k.value for k in call.keywords)) if isinstance(one, ast.Name)
        ]
        if not given.keys() & set(names) or not is_call_on_every_path(inside, call, node):
            continue
        found = find_donations(inside, call)
        for argument in found.donated_arguments if found is not None else ():
            place = _forwarded_argument(inside, node, argument.node, given)
            if (
                found is not None
                and place is not None
                and place.file is file
                and isinstance(place.node, ast.expr)
            ):
                yield found, argument, place.node


def is_result_rebound(file: FileFacts, call: ast.Call, name: str) -> bool:
    """Return whether the result of a call is bound to its argument's name, so that it is an update of it."""
    statement = file.parent(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(part, ast.Name) and part.id == name for one in targets for part in walk_nodes(one))


def is_call_on_every_path(file: FileFacts, call: ast.AST, function: ast.AST) -> bool:
    """Return whether every path through a function reaches a call."""
    for outer in file.ancestors(call):
        if outer is function:
            return True
        if isinstance(outer, ast.stmt) and not isinstance(outer, _STRAIGHT):
            return False
        if isinstance(outer, ast.Lambda | ast.IfExp | ast.BoolOp):
            return False
    return False


def _forwarded_argument(
    file: FileFacts, function: ast.FunctionDef, node: ast.expr, given: Mapping[str, Place]
) -> Place | None:
    """Return the caller's argument for a parameter that is passed on unchanged."""
    if not isinstance(node, ast.Name):
        return None
    for binding in file.bindings(file.scope(function), node.id):
        begins = getattr(binding.node, "lineno", 0)
        if binding.kind != "param" and begins < file.statement(node).lineno:
            return None
    return given.get(node.id)
