"""Where the value of an expression is read: under its names, by callers of its function, as a parameter. Shared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import find_binding_reads
from shardlint.facts.controlled_code import find_result_uses
from shardlint.facts.project_objects import read_in_class, sole_assigned_values
from shardlint.model import Program
from shardlint.model.passed_functions import receiving_parameters
from shardlint.model.values import Place, options
from shardlint.syntax import FileFacts

_MOST = 40


def reads_of_same_value(file: FileFacts, node: ast.expr, alone: bool = True) -> Iterator[ast.expr]:
    """An expression, and the reads of the name or of the attribute of `self` that it gives.

    `alone`: only reads that no other value reaches.
    """
    yield node
    target = assignment_target(file, node)
    if target is not None:
        yield from find_reads(file, target, alone)


def find_reads(file: FileFacts, target: ast.expr, alone: bool = False) -> Iterator[ast.expr]:
    """The reads of a name that is bound, or of an attribute of `self` that one value alone is assigned to."""
    if isinstance(target, ast.Name):
        yield from (use for use, only in find_binding_reads(file, target) if only or not alone)
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        cls = next((one for one in file.ancestors(target) if isinstance(one, ast.ClassDef)), None)
        if cls is not None and len(list(sole_assigned_values(file, cls, target.attr))) <= 1:
            yield from read_in_class(file, target)


def next_reads_of_value(program: Program, place: Place) -> Iterator[Place]:
    """Where the value of an expression is read next: under its names, by callers of its function, as a parameter."""
    file, node = place.file, place.node
    parent = file.parent(node)
    match parent:
        case ast.Assign(targets=targets):
            yield from (Place(file, use) for target in targets for use in find_reads(file, target))
        case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            yield from (Place(file, use) for use in find_reads(file, target))
        case ast.Return() | ast.Lambda():
            yield from find_result_uses(program, file, parent)
        case ast.keyword():
            call = file.parent(parent)
            yield from reads_of_receiving_parameters(program, file, call, node) if isinstance(call, ast.Call) else ()
        case ast.Call():
            yield from reads_of_receiving_parameters(program, file, parent, node)


def reads_of_receiving_parameters(
    program: Program, file: FileFacts, call: ast.Call, argument: ast.AST
) -> Iterator[Place]:
    """The reads of the parameters that functions and classes of the project are given an argument for."""
    for option in options(program.value(file, call.func)):
        for one in receiving_parameters(program.evaluator, option, Place(file, call), argument):
            if one.binder is not None:
                inside = one.binder.file
                scope = inside.evaluation_scope(one.binder.node)
                for use in inside.mentions_in(scope, one.name)[:_MOST]:
                    if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
                        yield Place(inside, use)


def assignment_target(file: FileFacts, node: ast.expr) -> ast.expr | None:
    """Return the target that an expression is assigned to, alone or as one of several: `rank, n = process_index(),
    device_count()`.
    """
    parent = file.parent(node)
    outer = file.parent(parent) if isinstance(parent, ast.Tuple) else parent
    match outer:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            pass
        case _:
            return None
    if not isinstance(parent, ast.Tuple):
        return target
    if not isinstance(target, ast.Tuple) or len(target.elts) != len(parent.elts):
        return None
    return target.elts[parent.elts.index(node)]
