"""Outcomes of tests in one call or loop iteration: the branch of `a if test else b`, and the elements that a
comprehension keeps.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from shardlint.model.shapes import shape_of
from shardlint.model.values import (
    Api,
    Assumed,
    CallResult,
    Constant,
    Environment,
    Items,
    Place,
    Table,
    Unknown,
    Value,
    accept_assumed,
)
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import sole_assigned_value
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

_ORDERS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TRUE = ("jax.sharding.NamedSharding", "jax.sharding.Mesh", "jax.make_mesh")
_PLAIN = ("list", "tuple", "set", "dict", "str", "int", "float", "bytes")


def live_branches(
    evaluator: Evaluator, file: FileFacts, node: ast.IfExp, env: Environment | None
) -> tuple[ast.expr, ...]:
    """The sides that may be taken. Both, where the test leans on no argument: a flag of a module may be set anew."""
    if env is not None:
        asked = env.asked
        told = truth_of_test(evaluator, file, node.test, env)
        if told is not None and told[1] is None and env.asked > asked:
            return (node.body if told[0] else node.orelse,)
    return node.body, node.orelse


def truth_of_test(
    evaluator: Evaluator, file: FileFacts, test: ast.expr, env: Environment | None
) -> tuple[bool, Assumed | None] | None:
    """Return the truth of a test, and an assumption that it depends on. None means that it is unknown."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = truth_of_test(evaluator, file, operand, env)
            return None if inner is None else (not inner[0], inner[1])
        case ast.BoolOp(op=op, values=parts):
            return _join_truth(
                isinstance(op, ast.Or), [truth_of_test(evaluator, file, part, env) for part in parts]
            )
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Constant():
            values = [_value_of_operand(evaluator, file, test, env)]
            answer = _truth_of_value(accept_assumed(values[0]))
        case ast.Call(func=ast.Name(id="isinstance"), args=[asked, kinds], keywords=[]):
            kind, of = (evaluator.value(Place(file, part), env) for part in (asked, kinds))
            answer = _is_kind(accept_assumed(kind), of)
            # No reason of its own: a side, or element, that is taken for its kind is assumed as well.
            return None if answer is None else (answer, None)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            values = [_value_of_operand(evaluator, file, part, env) for part in (left, right)]
            answer = _compare_values(op, accept_assumed(values[0]), accept_assumed(values[1]))
        case ast.Compare(left=left, ops=ops, comparators=others):
            pairs = zip([left, *others], ops, others, strict=False)
            chain = [ast.Compare(first, [op], [second]) for first, op, second in pairs]
            return _join_truth(False, [truth_of_test(evaluator, file, part, env) for part in chain])
        case _:
            return None
    return None if answer is None else (answer, next((one for one in values if isinstance(one, Assumed)), None))


def _value_of_operand(
    evaluator: Evaluator, file: FileFacts, node: ast.expr, env: Environment | None
) -> Value:
    """Return the value of one side of a test."""
    measured = _shape_fact(evaluator, file, node, env)
    return measured if measured is not None else evaluator.value(Place(file, node), env)


def asks_for_shape(evaluator: Evaluator, file: FileFacts, test: ast.expr, env: Environment | None) -> bool:
    """Return whether a test reads the rank or a dimension of an array whose shape is known."""
    parts = (part for part in walk_nodes(test) if isinstance(part, ast.expr))
    return any(_shape_fact(evaluator, file, part, env) is not None for part in parts)


def _shape_fact(
    evaluator: Evaluator, file: FileFacts, node: ast.expr, env: Environment | None
) -> Constant | Items | None:
    """The rank, shape, size or a dimension of an array, also under a name; None of any other expression."""
    match node:
        case ast.Name() if (value := sole_assigned_value(file, node)) is not None and file.evaluation_scope(
            value
        ) is file.evaluation_scope(node):
            return _shape_fact(evaluator, file, value, env) if not isinstance(value, ast.Name) else None
        case ast.Attribute(attr="ndim" | "size" | "shape" as attr, value=array):
            pass
        case ast.Call(func=ast.Attribute(attr="ndim" | "size" | "shape" as attr), args=[array], keywords=[]):
            pass
        case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
            items = _shape_fact(evaluator, file, inner, env)
            return Constant(len(items.items)) if isinstance(items, Items) else None
        case ast.Subscript(value=inner, slice=index):
            items = _shape_fact(evaluator, file, inner, env)
            return _select_dimensions(items, index) if isinstance(items, Items) else None
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            sides = [_shape_fact(evaluator, file, left, env), evaluator.value(Place(file, right), env)]
            match sides:
                case [Constant(value=int() as one), Constant(value=int() as two)]:
                    return Constant(one + two if isinstance(op, ast.Add) else one - two)
            return None
        case _:
            return None
    shape = shape_of(evaluator, Place(file, array), env)
    if shape is None or (attr == "size" and None in shape):
        return None
    if attr == "shape":
        return Items("tuple", tuple(Unknown("a dimension") if one is None else Constant(one) for one in shape))
    return Constant(len(shape) if attr == "ndim" else math.prod(one for one in shape if one is not None))


def _select_dimensions(items: Items, index: ast.expr) -> Constant | Items | None:
    """A dimension, or some, of a shape."""
    match index:
        case ast.Slice(lower=lower, upper=upper, step=None):
            start, stop = (None if part is None else _integer_of_node(part) for part in (lower, upper))
            if (lower is None or start is not None) and (upper is None or stop is not None):
                return Items("tuple", items.items[start:stop])
        case _ if (at := _integer_of_node(index)) is not None and -len(items.items) <= at < len(items.items):
            found = items.items[at]
            return found if isinstance(found, Constant) else None
    return None


def _integer_of_node(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
    return None


def _join_truth(
    decides: bool, parts: list[tuple[bool, Assumed | None] | None]
) -> tuple[bool, Assumed | None] | None:
    """Return the truth of `or` (which a true part decides) or `and` (which a false part decides)."""
    for part in parts:
        if part is not None and part[0] is decides:
            return part
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return not decides, next((reason for _, reason in known if reason is not None), None)


def _is_kind(value: Value, kinds: Value) -> bool | None:
    """Return whether a literal value is of one of some builtin types."""
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


def is_surely_true(value: Value) -> bool:
    """Return whether a value is surely true in a test: a sharding or mesh, or a spec that is not empty."""
    if not isinstance(value, CallResult) or value.call is None or value.call.open_positional:
        return False
    return value.api in _TRUE or (value.api == "jax.sharding.PartitionSpec" and bool(value.call.positional))


def _truth_of_value(value: Value) -> bool | None:
    match value:
        case Constant(value=known):
            return bool(known)
        case Items(items=items, open=False):
            return bool(items)
    return None


def _compare_values(op: ast.cmpop, one: Value, two: Value) -> bool | None:
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
        case ast.Eq() | ast.NotEq(), Items(items=items, open=False), Items(items=others, open=False):
            same = _same_items(items, others)
            return None if same is None else same is positive
        case ast.cmpop(), Constant(value=int() | float() as known), Constant(value=int() | float() as other):
            compare = _ORDERS.get(type(op))
            return compare(known, other) if compare is not None else None
    return None


def _same_items(items: tuple[Value, ...], others: tuple[Value, ...]) -> bool | None:
    """Return whether two tuples are equal, as far as their lengths and known items tell."""
    if len(items) != len(others):
        return False
    pairs = list(zip(items, others, strict=True))
    known = [one == two for one, two in pairs if isinstance(one, Constant) and isinstance(two, Constant)]
    return False if not all(known) else True if len(known) == len(pairs) else None
