"""Which side of `a if test else b` is taken where the test asks about what is given in this call, or this turn."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.values import Constant, Environment, Items, Place, Table, Value
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator


def taken(
    evaluator: Evaluator, file: FileFacts, node: ast.IfExp, env: Environment | None
) -> tuple[ast.expr, ...]:
    """The sides that may be taken. Both, where the test leans on no argument: a flag of a module may be set anew."""
    if env is not None:
        asked = env.asked
        answer = _truth(evaluator, file, node.test, env)
        if answer is not None and env.asked > asked:
            return (node.body if answer else node.orelse,)
    return node.body, node.orelse


def _truth(evaluator: Evaluator, file: FileFacts, test: ast.expr, env: Environment) -> bool | None:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(evaluator, file, operand, env)
            return None if inner is None else not inner
        case ast.Name() | ast.Attribute():
            return _true(evaluator.value(Place(file, test), env))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            one, two = (evaluator.value(Place(file, part), env) for part in (left, right))
            return _compared(op, one, two)
    return None


def _true(value: Value) -> bool | None:
    match value:
        case Constant(value=known):
            return bool(known)
        case Items(items=items, open=False):
            return bool(items)
    return None


def _compared(op: ast.cmpop, one: Value, two: Value) -> bool | None:
    positive = isinstance(op, ast.Is | ast.Eq | ast.In)
    match op, one, two:
        case ast.Is() | ast.IsNot(), Items() | Table(), Constant(value=None):
            return not positive
        case ast.Is() | ast.IsNot(), Constant(value=known), Constant(value=None):
            return (known is None) is positive
        case ast.Eq() | ast.NotEq(), Constant(value=known), Constant(value=other):
            return (known == other) is positive
        case ast.In() | ast.NotIn(), Constant(value=known), Table(entries=entries, open=False):
            return any(key == known for key, _ in entries) is positive
        case ast.In() | ast.NotIn(), Constant(value=known), Items(items=items, open=False):
            if all(isinstance(item, Constant) for item in items):
                return (Constant(known) in items) is positive
    return None
