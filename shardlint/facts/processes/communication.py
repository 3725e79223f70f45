"""Test for computations that exchange data between the devices over which their arrays are sharded.

A process that starts a computation without the others hangs only where the computation communicates: elementwise work
on a sharded array runs on each device by itself.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.shapes import ELEMENTWISE
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.syntax.nodes import walk_nodes

if TYPE_CHECKING:
    from shardlint.model import Program

_DEPTH = 4
_ELEMENTWISE = ELEMENTWISE | frozenset(
    f"jax.numpy.{name}"
    for name in (
        "absolute add arctan array asarray astype cbrt ceil cosh divide equal exp2 expm1 floor full_like greater "
        "greater_equal isfinite isinf isnan less less_equal log10 log1p log2 logical_and logical_not logical_or "
        "maximum minimum mod multiply not_equal ones_like power reciprocal sinh subtract tan true_divide where "
        "zeros_like"
    ).split()
)
# What communicates for some layouts of its array: it moves or joins dimensions, or multiplies rows by columns.
_BY_LAYOUT = frozenset(
    f"jax.numpy.{name}"
    for name in (
        "atleast_1d atleast_2d broadcast_to dot einsum expand_dims matmul moveaxis ravel repeat reshape squeeze stack "
        "swapaxes tensordot tile transpose vdot"
    ).split()
)
_ELEMENTWISE_METHODS = ("astype", "clip")
_REDUCING_METHODS = ("max", "mean", "min", "std", "sum", "var")


def call_communicates(program: Program, call: Place) -> bool | None:
    """Return whether a call communicates if its arrays are sharded; None if their layout decides.

    A call of what is not seen counts as one that does.
    """
    assert isinstance(call.node, ast.Call)
    return _call_communicates(program, call, call.node, 0)


def _call_communicates(program: Program, place: Place, call: ast.Call, depth: int) -> bool | None:
    called = options(program.value(place.file, call.func))
    is_seen = any(isinstance(one, Api | Function | Transformed) for one in called)
    if isinstance(call.func, ast.Attribute) and not is_seen:
        if call.func.attr in _REDUCING_METHODS:
            return None if _names_axis(call, 0) else True
        if call.func.attr in _ELEMENTWISE_METHODS:
            return False
    return _join_answers({_callee_communicates(program, one, call, depth) for one in called})


def _callee_communicates(program: Program, value: Value, call: ast.Call, depth: int) -> bool | None:
    match value:
        case Api(name=name) if name in _ELEMENTWISE or name.startswith("builtins."):
            return False
        case Api(name=name) if name in _BY_LAYOUT or (name.startswith("jax.numpy.") and _names_axis(call, 1)):
            return None
        case Transformed(api=Api(name=name), inner=Function() as inner, call=made) if name in JIT_WRAPPERS:
            found = _body_communicates(program, inner, depth)
            moved = made is not None and "out_shardings" in made.keywords
            return None if moved and found is False else found
        case Function():
            return _body_communicates(program, value, depth)
    return True


def _names_axis(call: ast.Call, position: int) -> bool:
    return len(call.args) > position or any(one.arg == "axis" for one in call.keywords)


def _body_communicates(program: Program, function: Function, depth: int) -> bool | None:
    """Return whether the computation of a function communicates."""
    if depth > _DEPTH:
        return True
    file, node = function.place.file, function.node
    answers: set[bool | None] = set()
    for statement in [node.body] if isinstance(node, ast.Lambda) else node.body:
        for part in walk_nodes(statement):
            if isinstance(part, ast.Call):
                answers.add(_call_communicates(program, Place(file, part), part, depth + 1))
            elif _depends_on_layout(part):
                answers.add(None)
    return _join_answers(answers)


def _depends_on_layout(node: ast.AST) -> bool:
    """Return whether an expression is `x[i]`, `x.T` or `x @ y`."""
    match node:
        case ast.Subscript() | ast.Attribute(attr="T" | "mT") | ast.BinOp(op=ast.MatMult()):
            return True
    return False


def _join_answers(answers: set[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False
