"""Conditions that each process answers by its own clock, and what all of them must do together under it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlint.model.process.whole_program import Together, joined
from shardlint.model.reach import readers
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name

CLOCKS = ("time.time", "time.monotonic", "time.perf_counter", "time.process_time")
_NUMBERS = ("min", "max", "float", "int", "round", "abs")
_Loop = ast.For | ast.While


@dataclass(frozen=True)
class Decided:
    """The comparison, whether it ends a loop, and a call that waits for all processes."""

    test: ast.expr
    ends: bool
    waits: Together


def decided(site: Site) -> Decided | None:
    """What a site's clock decides; None where nothing waits, or the answer is not each process's own."""
    for read in _reads(site.file, site.call, 0):
        test = _compared(site.file, read)
        statement = site.file.parent(test) if test is not None else None
        if test is None or not isinstance(statement, ast.If | ast.While) or statement.test is not test:
            continue
        found = next(joined(site.program, site.file, statement.body), None)
        if found is not None:
            return Decided(test, isinstance(statement, ast.While), found)
        loop = _left(site.file, statement) if isinstance(statement, ast.If) else None
        found = next(joined(site.program, site.file, loop.body), None) if loop is not None else None
        if found is not None:
            return Decided(test, True, found)
    return None


def _reads(file: FileFacts, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """The clock itself, and where a name is read that a time is bound to."""
    yield node
    outer: ast.AST = node
    parent = file.parent(outer)
    while isinstance(parent, ast.BinOp) or (
        isinstance(parent, ast.Call) and last_name(parent.func) in _NUMBERS and parent.func is not outer
    ):
        outer, parent = parent, file.parent(parent)
    if depth < 2 and isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
        if isinstance(target, ast.Name):
            for read, _ in readers(file, target):
                yield from _reads(file, read, depth + 1)


def _compared(file: FileFacts, node: ast.expr) -> ast.expr | None:
    """The condition that asks how late it is: `time.time() - start > limit`, itself or one of several."""
    inner: ast.AST = node
    compared = False
    for outer in file.ancestors(node):
        if isinstance(outer, ast.Compare):
            compared = all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in outer.ops)
        elif isinstance(outer, ast.Call):
            if last_name(outer.func) not in _NUMBERS:
                return None
        elif isinstance(outer, ast.If | ast.While):
            return outer.test if compared and outer.test is inner else None
        elif not isinstance(outer, ast.BinOp | ast.BoolOp | ast.UnaryOp):
            return None
        inner = outer
    return None


def _left(file: FileFacts, statement: ast.If) -> _Loop | None:
    """The loop that a statement leaves."""
    kinds = ast.For | ast.While | ast.FunctionDef
    loop = next((one for one in file.ancestors(statement) if isinstance(one, kinds)), None)
    ends = any(isinstance(one, ast.Break | ast.Return) for one in statement.body)
    return loop if ends and isinstance(loop, ast.For | ast.While) else None
