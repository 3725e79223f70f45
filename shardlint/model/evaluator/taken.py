"""What a test says of what is given in this call, or this turn: which side of `a if test else b` is taken, and which
elements a comprehension keeps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.values import (
    Api,
    Assumed,
    CallResult,
    Constant,
    Environment,
    Items,
    Place,
    Table,
    Value,
    settled,
)
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

_TRUE = ("jax.sharding.NamedSharding", "jax.sharding.Mesh", "jax.make_mesh")
_PLAIN = ("list", "tuple", "set", "dict", "str", "int", "float", "bytes")


def taken(
    evaluator: Evaluator, file: FileFacts, node: ast.IfExp, env: Environment | None
) -> tuple[ast.expr, ...]:
    """The sides that may be taken. Both, where the test leans on no argument: a flag of a module may be set anew."""
    if env is not None:
        asked = env.asked
        told = truth(evaluator, file, node.test, env)
        if told is not None and told[1] is None and env.asked > asked:
            return (node.body if told[0] else node.orelse,)
    return node.body, node.orelse


def truth(
    evaluator: Evaluator, file: FileFacts, test: ast.expr, env: Environment
) -> tuple[bool, Assumed | None] | None:
    """Whether a test is true, and something assumed that this rests on; None where it is not known."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = truth(evaluator, file, operand, env)
            return None if inner is None else (not inner[0], inner[1])
        case ast.BoolOp(op=op, values=parts):
            return _joined(isinstance(op, ast.Or), [truth(evaluator, file, part, env) for part in parts])
        case ast.Name() | ast.Attribute():
            values = [evaluator.value(Place(file, test), env)]
            answer = _true(settled(values[0]))
        case ast.Call(func=ast.Name(id="isinstance"), args=[asked, kinds], keywords=[]):
            kind, of = (evaluator.value(Place(file, part), env) for part in (asked, kinds))
            answer = _is_kind(settled(kind), of)
            # No reason of its own: a side, or element, that is taken for its kind is assumed as well.
            return None if answer is None else (answer, None)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            values = [evaluator.value(Place(file, part), env) for part in (left, right)]
            answer = _compared(op, settled(values[0]), settled(values[1]))
        case _:
            return None
    return None if answer is None else (answer, next((one for one in values if isinstance(one, Assumed)), None))


def _joined(
    decides: bool, parts: list[tuple[bool, Assumed | None] | None]
) -> tuple[bool, Assumed | None] | None:
    """What `or` (whose parts decide where they are true) or `and` makes of its parts."""
    for part in parts:
        if part is not None and part[0] is decides:
            return part
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return not decides, next((reason for _, reason in known if reason is not None), None)


def _is_kind(value: Value, kinds: Value) -> bool | None:
    """Whether a value that is written out is of one of some builtin types."""
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


def surely_true(value: Value) -> bool:
    """Whether a value is true as it is given for another one: a sharding or mesh, or a spec that is not empty."""
    if not isinstance(value, CallResult) or value.call is None or value.call.open_positional:
        return False
    return value.api in _TRUE or (value.api == "jax.sharding.PartitionSpec" and bool(value.call.positional))


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
