"""Conditions and operators."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardlint.layouts.iteration import MOST_ITEMS, known_items
from shardlint.layouts.layout import (
    Layout,
    Mesh,
    Size,
    Symbol,
    divide_size,
    multiply_size,
)
from shardlint.layouts.values import (
    AnyTree,
    ClassValue,
    DictValue,
    FunctionValue,
    Instance,
    Library,
    ListValue,
    PartitionSpec,
    Sharding,
    Unknown,
    Value,
    as_operand,
)
from shardlint.model.values import Place

if TYPE_CHECKING:
    from shardlint.layouts.run_state import RunState

NUMBERS = (int, float, complex, bool)


_OPERATORS: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], str]] = {
    ast.Add: (operator.add, "add"),
    ast.Sub: (operator.sub, "subtract"),
    ast.Mult: (operator.mul, "multiply"),
    ast.Div: (operator.truediv, "true_divide"),
    ast.FloorDiv: (operator.floordiv, "floor_divide"),
    ast.Mod: (operator.mod, "remainder"),
    ast.Pow: (operator.pow, "power"),
    ast.MatMult: (operator.matmul, "matmul"),
    ast.BitAnd: (operator.and_, "bitwise_and"),
    ast.BitOr: (operator.or_, "bitwise_or"),
    ast.BitXor: (operator.xor, "bitwise_xor"),
    ast.LShift: (operator.lshift, "left_shift"),
    ast.RShift: (operator.rshift, "right_shift"),
}


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


_COMPARED: dict[type[ast.cmpop], str] = {
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
LARGEST = 1 << 40


def truth_of_condition(run: RunState, node: ast.expr) -> bool | None:
    """Return whether a condition holds; None where that is not known."""
    return decide_truth(run, run.evaluate_expression(node), node)


def decide_truth(run: RunState, value: Value, node: ast.expr) -> bool | None:
    """The truth of the value of an expression, which Python asks for."""
    if isinstance(value, Layout) and value.has_rows:
        call_library(run, "shardlint.scalar", (value,), Place(run.frame.file, node), use="condition")
    return truth_of(value)


def truth_of(value: Value) -> bool | None:
    """Return whether a value counts as true; None where that is not known."""
    match value:
        case bool() | int() | float() | str() | tuple() | None:
            return bool(value)
        case ListValue(items=found, open=more):
            return True if found and not more else None if more else bool(found)
        case DictValue(entries=entries, open=more):
            return None if more else bool(entries)
        case FunctionValue() | ClassValue() | Mesh() | Sharding() | PartitionSpec():
            return True
        case Library(name=name):
            return {"typing.TYPE_CHECKING": False}.get(name)
    return None


def apply_unary(run: RunState, op: ast.unaryop, node_: ast.expr, node: ast.expr) -> Value:
    """Return the result of `not`, `-`, `+` or `~` of an expression."""
    value = as_operand(run.evaluate_expression(node_))
    if isinstance(op, ast.Not):
        known = decide_truth(run, value, node_)
        return Unknown("a condition") if known is None else not known
    if isinstance(value, NUMBERS):
        return -value if isinstance(op, ast.USub) else +value if isinstance(op, ast.UAdd) else ~value  # type: ignore[operator]
    if isinstance(value, AnyTree):
        value = value.leaf
    if isinstance(value, Layout) or operators_of(value):
        module = operators_of(value) or "jax.numpy"
        return call_library(run, f"{module}.negative", (value,), Place(run.frame.file, node))
    return Unknown("arithmetic")


def compare_values(run: RunState, values: list[Value], ops: list[ast.cmpop], node: ast.expr) -> Value:
    """Return the result of a comparison, or a chain of them, of values."""
    if len(values) > 2:
        for place in range(len(ops)):
            holds = truth_of(compare_values(run, values[place : place + 2], [ops[place]], node))
            if not holds:
                return Unknown("a chain of comparisons") if holds is None else False
        return True
    (left, right), (op,) = values, ops
    if isinstance(op, ast.Is | ast.IsNot):
        if left is None or right is None:
            other = right if left is None else left
            if isinstance(other, Unknown):
                return Unknown("a test for None")
            same = other is None
            return same if isinstance(op, ast.Is) else not same
        return Unknown("a test of identity")
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, Layout | AnyTree):
        return Unknown("a test of membership")
    left, right = (
        one.leaf if isinstance(one, AnyTree) else one for one in (as_operand(left), as_operand(right))
    )
    if operators_of(left, right):
        name = _COMPARED.get(type(op), "equal")
        return call_library(
            run, f"{operators_of(left, right)}.{name}", (left, right), Place(run.frame.file, node)
        )
    if isinstance(left, Layout) or isinstance(right, Layout):
        return call_library(run, "jax.numpy.equal", (left, right), Place(run.frame.file, node))
    plain = (str, *NUMBERS, tuple, type(None))
    if isinstance(op, ast.In | ast.NotIn):
        keys = known_items(run, right) if not isinstance(right, str) else None
        if isinstance(right, str) and isinstance(left, str):
            found = left in right
        elif keys is not None and isinstance(left, plain) and all(isinstance(one, plain) for one in keys):
            found = left in keys
        else:
            return Unknown("a test of membership")
        return found if isinstance(op, ast.In) else not found
    if isinstance(left, plain) and isinstance(right, plain):
        try:
            return _COMPARISONS[type(op)](left, right)
        except TypeError:
            return Unknown("a comparison")
    if isinstance(left, Symbol) and left == right and isinstance(op, ast.Eq | ast.NotEq):
        return isinstance(op, ast.Eq)
    return Unknown("a comparison")


def apply_boolean(run: RunState, op: ast.boolop, nodes: list[ast.expr]) -> Value:
    """Return the result of `and` or `or` of expressions."""
    stop = isinstance(op, ast.Or)
    unknown = False
    found: Value = None
    for node in nodes:
        run.branches += unknown
        try:
            found = run.evaluate_expression(node)
        finally:
            run.branches -= unknown
        known = decide_truth(run, found, node)
        if known is stop:
            return Unknown("a condition") if unknown and not stop else found
        unknown = unknown or known is None
    return Unknown("a condition") if unknown else found


def operators_of(*values: Value) -> str:
    """The module whose functions the operators of some values call, if one of them has its own."""
    return next((one.operators for one in values if isinstance(one, Instance) and one.operators), "")


def apply_binary(run: RunState, op: ast.operator, left: Value, right: Value, place: Place) -> Value:
    """An operator applied to two values."""
    compute, name = _OPERATORS[type(op)]
    left, right = as_operand(left), as_operand(right)
    if isinstance(left, NUMBERS) and isinstance(right, NUMBERS):
        return _compute_number(compute, left, right)
    if operators_of(left, right):
        return call_library(run, f"{operators_of(left, right)}.{name}", (left, right), place)
    if isinstance(left, str) and isinstance(right, str | int) and isinstance(op, ast.Add | ast.Mult):
        try:
            return compute(left, right)
        except TypeError:
            return Unknown("text")
    if any(isinstance(one, AnyTree) for one in (left, right)) and all(
        isinstance(one, (Layout, AnyTree, Unknown, Symbol, *NUMBERS)) for one in (left, right)
    ):  # what is added to an array is one; two of which nothing is known may be tuples
        trees = isinstance(op, ast.Add) and all(isinstance(one, AnyTree | Unknown) for one in (left, right))
        left, right = (one.leaf if isinstance(one, AnyTree) else one for one in (left, right))
        left, right = (Layout() if isinstance(one, Unknown) else one for one in (left, right))
        if trees:
            return AnyTree(call_library(run, "jax.numpy.add", (left, right), place))
    if isinstance(left, Layout) or isinstance(right, Layout):
        on_host = all(
            isinstance(one, int | float) or (isinstance(one, Layout) and one.host) for one in (left, right)
        )
        return call_library(run, f"{'numpy' if on_host else 'jax.numpy'}.{name}", (left, right), place)
    if isinstance(op, ast.Add):
        if isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        if isinstance(left, ListValue) and isinstance(right, ListValue):
            return ListValue(left.items + right.items, left.open or right.open, region=run.region)
        if isinstance(left, PartitionSpec) and isinstance(right, PartitionSpec | tuple):
            more = right.entries if isinstance(right, PartitionSpec) else right
            return PartitionSpec(left.entries + more, left.open or getattr(right, "open", False))
    if isinstance(op, ast.Mult):
        many, count = (left, right) if isinstance(right, int | Symbol) else (right, left)
        if isinstance(count, int) and 0 <= count <= MOST_ITEMS:
            if isinstance(many, tuple) and len(many) * count <= MOST_ITEMS:
                return many * count
            if isinstance(many, ListValue) and len(many.items) * count <= MOST_ITEMS:
                return ListValue(many.items * count, many.open, region=run.region)
        if isinstance(count, int | Symbol) and isinstance(many, ListValue) and not many.open:
            return ListValue(many.items, True, multiply_size(len(many.items), count), region=run.region)
    if isinstance(op, ast.BitOr) and isinstance(left, DictValue) and isinstance(right, DictValue):
        return DictValue({**left.entries, **right.entries}, left.open or right.open, region=run.region)
    if isinstance(left, Symbol | int) and isinstance(right, Symbol | int):
        found = _compute_size(op, left, right)
        return Unknown("arithmetic with a size that is not known") if found is None else found
    return Unknown("arithmetic with something that is not known")


def _compute_size(op: ast.operator, left: Size, right: Size) -> Size:
    if isinstance(op, ast.Mult):
        return multiply_size(left, right)
    if isinstance(op, ast.FloorDiv):
        return divide_size(left, right)
    return 0 if isinstance(op, ast.Mod) and divide_size(left, right) is not None else None


def _compute_number(compute: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    if compute is operator.pow and (abs(right) > 64 or abs(left) > LARGEST):
        return Unknown("a large number")
    if compute in (operator.lshift,) and right > 64:
        return Unknown("a large number")
    try:
        found = compute(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return Unknown("arithmetic that raises")
    return Unknown("a large number") if isinstance(found, int) and abs(found) > LARGEST else found


def call_library(run: RunState, name: str, args: tuple[Value, ...], place: Place, **keywords: Value) -> Value:
    """Call a function of a library by its canonical name."""
    return run.call_value(Library(name), args, keywords, place)
