"""Conditions that each process answers by its own clock, and what all of them must do together under it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.asked import Asked, asked, decides, results
from shardlint.model.process.processes import first
from shardlint.model.process.whole_program import Together, joined
from shardlint.model.reach import readers
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import last_name
from shardlint_rules.processes.alone import left_to_one

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
    waits: Together
    where: Place


def decided(site: Site) -> Decided | None:
    """Return the decision that depends on a site's clock; None if nothing waits, or if all processes get one answer."""
    for read in _reads(site, Place(site.file, site.call), 0):
        compared = _compared(read)
        if compared is None:
            continue
        for one in asked(site.program, Place(read.file, compared)):
            found = _waiting(site, one)
            if found is not None:
                ends, waits = found
                answer = Place(read.file, compared)
                # A timer is right by itself, and asked in the wrong way; a class that asks itself gave the answer.
                ways = (answer, one.test) if _asks_itself(answer, one.test) else (one.test, answer)
                here = next((it for it in ways if it.file is site.file), None)
                test = here.node if here is not None else site.call
                assert isinstance(test, ast.expr)
                return Decided(test, ends, waits, one.test)
    return None


def _asks_itself(answer: Place, test: Place) -> bool:
    """Return whether one method of a class sets an answer and another one reads it."""
    given, asks = (one.file.home(one.node).function() for one in (answer, test))
    if given is None or asks is None or given is asks or given.parent is None:
        return False
    return given.parent is asks.parent and given.parent.kind == "class"


def _waiting(site: Site, one: Asked) -> tuple[bool, Together] | None:
    """Return the joint work of all processes that a condition decides, and whether it is a loop that the condition
    ends.
    """
    program, file = site.program, one.file
    if first(program, one.test) is not None or program.project.is_test(file.path):
        return None
    if left_to_one(program, Place(file, one.statement)):
        return None
    for block, ends in decides(one):
        found = next(joined(program, file, block), None)
        if found is not None:
            return ends, found
    return None


def _reads(site: Site, place: Place, depth: int) -> Iterator[Place]:
    """The clock itself, and where a name is read that a time is bound to, or a call gives a time that is returned."""
    file, outer = place.file, place.node
    yield place
    parent = file.parent(outer)
    while isinstance(parent, ast.BinOp) or _passes(parent, outer):
        assert parent is not None
        outer, parent = parent, file.parent(parent)
    if depth > 2:
        return
    match parent:
        case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
            for read, _ in readers(file, target):
                yield from _reads(site, Place(file, read), depth + 1)
        case ast.Return():
            for use in results(site.program, file, parent):
                yield from _reads(site, use, depth + 1)


def _passes(parent: ast.AST | None, inner: ast.AST) -> bool:
    """Return whether a call returns its numeric argument: `int(t)`, `(now - last).total_seconds()`."""
    if isinstance(parent, ast.Attribute):
        return parent.attr in _NUMBERS or parent.attr in ("seconds", "timestamp")
    return isinstance(parent, ast.Call) and (
        (last_name(parent.func) in _NUMBERS and parent.func is not inner)
        or (parent.func is inner and isinstance(inner, ast.Attribute))
    )


def _compared(place: Place) -> ast.expr | None:
    """The comparison that asks how late it is: `time.time() - start > limit`."""
    inner: ast.AST = place.node
    outer = place.file.parent(inner)
    while isinstance(outer, ast.BinOp) or _passes(outer, inner):
        assert outer is not None
        inner, outer = outer, place.file.parent(outer)
    if isinstance(outer, ast.Compare) and all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in outer.ops):
        return outer
    return None
