"""Conditions that each process answers by its own clock, and what all of them must do together under it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import find_binding_reads
from shardlint.facts.controlled_code import (
    ControlledStatement,
    controlled_blocks,
    find_controlled_statements,
    find_result_uses,
)
from shardlint.facts.processes.collective_calls import CollectiveCall, collective_calls
from shardlint.facts.processes.conditions import evaluate_on_first_process
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import last_name
from shardlint_rules.processes.single_process_code import left_to_one

CLOCKS = (
    "time.time",
    "time.monotonic",
    "time.perf_counter",
    "time.process_time",
    "time.time_ns",
    "time.monotonic_ns",
    "timeit.default_timer",
)
DATES = ("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today")
"""Clocks too, which more often make a name."""
_NUMBERS = ("min", "max", "float", "int", "round", "abs", "divmod", "total_seconds")


@dataclass(frozen=True)
class Decided:
    """The condition, or the comparison where another method asks, whether it ends a loop, and what waits for all."""

    test: ast.expr
    ends: bool
    waits: CollectiveCall
    where: Place


def find_clock_decision(site: Site) -> Decided | None:
    """Return the decision that depends on a site's clock; None if nothing waits, or if all processes get one answer."""
    for read in _find_clock_reads(site, Place(site.file, site.call), 0):
        compared = _find_time_comparison(read)
        if compared is None:
            continue
        for one in find_controlled_statements(site.program, Place(read.file, compared)):
            found = _find_waiting_work(site, one)
            if found is not None:
                ends, waits = found
                answer = Place(read.file, compared)
                # A timer is right by itself, and asked in the wrong way; a class that asks itself gave the answer.
                ways = (
                    (answer, one.whole_test)
                    if _sets_and_reads_answer(answer, one.whole_test)
                    else (one.whole_test, answer)
                )
                here = next((it for it in ways if it.file is site.file), None)
                test = here.node if here is not None else site.call
                assert isinstance(test, ast.expr)
                return Decided(test, ends, waits, one.whole_test)
    return None


def _sets_and_reads_answer(answer: Place, test: Place) -> bool:
    """Return whether one method of a class sets an answer and another one reads it."""
    given, asks = (one.file.evaluation_scope(one.node).enclosing_function() for one in (answer, test))
    if given is None or asks is None or given is asks or given.parent is None:
        return False
    return given.parent is asks.parent and given.parent.kind == "class"


def _find_waiting_work(site: Site, controlled_statement: ControlledStatement) -> tuple[bool, CollectiveCall] | None:
    """Return the joint work of all processes that a condition decides, and whether it is a loop that the condition
    ends.
    """
    program, file = site.program, controlled_statement.file
    if evaluate_on_first_process(program, controlled_statement.whole_test) is not None or program.project.is_test(
        file.path
    ):
        return None
    if left_to_one(program, Place(file, controlled_statement.statement)):
        return None
    for block, ends in controlled_blocks(controlled_statement):
        found = next(collective_calls(program, file, block), None)
        if found is not None:
            return ends, found
    return None


def _find_clock_reads(site: Site, place: Place, depth: int) -> Iterator[Place]:
    """The clock itself, and where a name is read that a time is bound to, or a call gives a time that is returned."""
    file, outer = place.file, place.node
    yield place
    parent = file.parent(outer)
    while isinstance(parent, ast.BinOp) or _returns_its_number(parent, outer):
        assert parent is not None
        outer, parent = parent, file.parent(parent)
    if depth > 2:
        return
    match parent:
        case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
            for read, _ in find_binding_reads(file, target):
                yield from _find_clock_reads(site, Place(file, read), depth + 1)
        case ast.Return():
            for use in find_result_uses(site.program, file, parent):
                yield from _find_clock_reads(site, use, depth + 1)


def _returns_its_number(parent: ast.AST | None, inner: ast.AST) -> bool:
    """Return whether a call returns its numeric argument: `int(t)`, `(now - last).total_seconds()`."""
    if isinstance(parent, ast.Attribute):
        return parent.attr in _NUMBERS or parent.attr in ("seconds", "timestamp")
    return isinstance(parent, ast.Call) and (
        (last_name(parent.func) in _NUMBERS and parent.func is not inner)
        or (parent.func is inner and isinstance(inner, ast.Attribute))
    )


def _find_time_comparison(place: Place) -> ast.expr | None:
    """The comparison that asks how late it is: `time.time() - start > limit`."""
    inner: ast.AST = place.node
    outer = place.file.parent(inner)
    while isinstance(outer, ast.BinOp) or _returns_its_number(outer, inner):
        assert outer is not None
        inner, outer = outer, place.file.parent(outer)
    if isinstance(outer, ast.Compare) and all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in outer.ops):
        return outer
    return None
