"""Which side of `a if test else b` is taken where the test asks about what is given in this call, or this turn."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.values import Api, Constant, Environment, Items, Place, Table, Value, settled
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

_PLAIN = ("list", "tuple", "set", "dict", "str", "int", "float", "bytes")


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
        case ast.Call(func=ast.Name(id="isinstance"), args=[asked, kinds], keywords=[]):
            return _is_kind(evaluator.value(Place(file, asked), env), evaluator.value(Place(file, kinds), env))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            one, two = (evaluator.value(Place(file, part), env) for part in (left, right))
            return _compared(op, one, two)
    return None


def _is_kind(value: Value, kinds: Value) -> bool | None:
    """Whether a value that is written out is of one of some builtin types."""
    value = settled(value)
    given = kinds.items if isinstance(kinds, Items) and not kinds.open else (kinds,)
    names = [one.name.removeprefix("builtins.") for one in given if isinstance(one, Api)]
    match value:
        case Items(kind=kind):
            own = kind
        case Table():
            own = "dict"
        case Constant(value=str() | int() | float() | None as known):
            own = type(known).__name__
        case _:
            return None
    if own in names:
        return True
    plain = len(names) == len(given) and all(name in _PLAIN for name in names)
    return False if plain and own != "bool" else None


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
