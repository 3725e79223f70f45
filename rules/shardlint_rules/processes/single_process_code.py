"""Code that runs only where one process has all devices, and what is called to meet the others."""

from __future__ import annotations

import ast

from shardlint.facts.bound_names import settled_expression
from shardlint.facts.processes.collective_calls import CollectiveCall
from shardlint.facts.processes.conditions import (
    find_process_guard,
    multi_process_evidence,
    reads_process_state,
)
from shardlint.model import Program
from shardlint.model.values import CallResult, Place, options
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts
from shardlint_rules.processes.count_conditions import one_of_it

BARRIER = compile_lazily(r"^_?sync_(?:global_)?(?:devices|processes|hosts)$")
"""What is called to wait for the other processes."""

_ALL = ("jax.device_count", "jax.devices")
_OWN = ("jax.local_device_count", "jax.local_devices")


def is_reached_with_one_process(program: Program, place: Place) -> bool:
    """Return whether a place is reached only with one process, by the conditions of its function."""
    inner, file = place.node, place.file
    for outer in file.ancestors(place.node):
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if evaluate_on_one_process(program, file, outer.test) is (inner in body):
                return True
        if isinstance(inner, ast.stmt) and _may_return_before(program, file, outer, inner):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        inner = outer
    return False


def left_to_one(program: Program, place: Place) -> bool:
    """Return whether one process alone comes to a place, by conditions or because there is no other."""
    return find_process_guard(program, place.file, place.node) is not None or is_reached_with_one_process(
        program, place
    )


def is_for_several_processes(program: Program, file: FileFacts) -> bool:
    """Return whether a file asks which process it is, or code that runs with it starts several."""
    return reads_process_state(file) or multi_process_evidence(program, file) == "initialized"


def conditions_around_call(program: Program, collective_call: CollectiveCall) -> list[Place] | None:
    """The conditions that may go around a call, but those that ask for several processes; None where there is one."""
    left = []
    for place, truth in collective_call.branches:
        one = evaluate_on_one_process(program, place.file, place.node) if isinstance(place.node, ast.expr) else None
        if one is truth:
            return None
        if one is None:
            left.append(place)
    return left


def _may_return_before(program: Program, file: FileFacts, outer: ast.AST, inner: ast.stmt) -> bool:
    """`if process_count() > 1: return ...` before a statement of the same block."""
    block = getattr(outer, "body", None)
    if not isinstance(block, list) or inner not in block:
        return False
    return any(
        isinstance(before, ast.If)
        and isinstance(before.body[-1], ast.Return | ast.Raise | ast.Continue)
        and evaluate_on_one_process(program, file, before.test) is False
        for before in block[: block.index(inner)]
    )


def evaluate_on_one_process(program: Program, file: FileFacts, test: ast.expr) -> bool | None:
    """Return the value of a condition if there is one process; None if it is about something else."""
    test = settled_expression(file, test)
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = evaluate_on_one_process(program, file, operand)
            return not found if found is not None else None
        case ast.BoolOp(op=op, values=values):
            for value in values:
                if evaluate_on_one_process(program, file, value) is isinstance(op, ast.And):
                    return isinstance(op, ast.And)
            return None
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            names = {whose_devices_counted(program, file, left), whose_devices_counted(program, file, right)}
            if names == {"all", "own"}:
                return isinstance(op, ast.Eq | ast.LtE | ast.GtE)
    asked = one_of_it(program, Place(file, test))
    return asked.truth if asked is not None and asked.what == "processes" else None


def whose_devices_counted(program: Program, file: FileFacts, node: ast.expr) -> str:
    """Which devices a number is that of: "all", "own" for those of this process, or nothing."""
    node = settled_expression(file, node)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len" and node.args:
        node = settled_expression(file, node.args[0])
    names = {one.api for one in options(program.value(file, node)) if isinstance(one, CallResult)}
    if names and names <= set(_ALL):
        return "all"
    return "own" if names and names <= set(_OWN) else ""
