"""Collectives that a branch may leave out, where what it asks has nothing to do with the axes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.layouts.violation import Violation
from shardlint.model.values import Place
from shardlint.source.patterns import compile_lazily
from shardlint.syntax.nodes import walk_nodes

# Flags that may be set just where the mesh has the axis.
_OF_AXES = compile_lazily(
    r"ax[ei]s|mesh|shard|device|parallel|distribut|replica|pmap|spmd|sync|cross|global|local|multi|process|host|gather"
    r"|reduce|psum|pmean|tensor|model|data|batch|seq|stage|expert|pipe|ring|split|partition|manual|size|num|count|len"
    r"|(?:^|[^a-z])(?:[tdsepcx]p|fsdp|n)(?:$|[^a-z])",
    2,
)
_BRANCHES = ast.If | ast.IfExp | ast.While | ast.match_case | ast.BoolOp | ast.comprehension


def rests_on_plain_flags(violation: Violation) -> bool:
    """Return whether only plain flags decide if a program reaches a broken contract."""
    tests = [test for place in violation.call_path for test in _find_conditions(place)]
    return all(_is_plain_flag(test) and not _OF_AXES.search(ast.unparse(test)) for test in tests)


def _find_conditions(place: Place) -> Iterator[ast.expr]:
    """The tests of the branches that a place is in, up to its function."""
    inner: ast.AST = place.node
    for outer in place.file.ancestors(place.node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _tests_leaving_before(outer, place.node)
            return
        if isinstance(outer, ast.If | ast.IfExp):
            if inner is not outer.test:
                yield outer.test
        elif isinstance(outer, ast.Try | _BRANCHES):
            # Not a flag: an error that is caught, or what is asked of values.
            yield ast.Constant(None)
        inner = outer


def _tests_leaving_before(function: ast.AST, node: ast.AST) -> Iterator[ast.expr]:
    """The tests of the branches by which a function may have returned before it comes to a place."""
    for one in walk_nodes(function):
        if isinstance(one, ast.If) and (one.end_lineno or one.lineno) < getattr(node, "lineno", 0):
            if any(isinstance(inner, ast.Return) for inner in walk_nodes(one)):
                yield one.test


def _is_plain_flag(test: ast.expr) -> bool:
    """Return whether a test is of a flag: a name or a field, or not one."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return isinstance(test, ast.Name | ast.Attribute)
