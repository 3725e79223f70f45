"""Functions given as arguments to what the project defines: the parameter or the field that they become.

Only calls in sight are followed so: what is given to a function may be given to it by others too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.signatures import KEEPING, parameters_of
from shardlint.model.values import Api, CallResult, ClassValue, Function, Place, Transformed, Value
from shardlint.source.lazy import dataclass

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

# Calls that keep a function as a field of what they return, by the keyword that names the field.
_KEPT = {"flax.training.train_state.TrainState.create": ("apply_fn",)}


def transform_of(value: Value) -> tuple[api.Transform | None, Api | None]:
    """The transform that a value is, also one made by a call with settings only, with its name."""
    if isinstance(value, Api):
        return api.TRANSFORMS.get(value.name), value
    # `eqx.filter_jit(donate="all")(f)`: a factory called with settings.
    if isinstance(value, CallResult) and isinstance(value.by, Api):
        return api.TRANSFORMS.get(value.by.name), value.by
    return None, None


def is_function_argument(call: ast.Call, node: ast.AST, transform: api.Transform) -> bool:
    """Return whether an argument of a transform's call is the function that it transforms."""
    for where in transform.functions:
        if isinstance(where, int):
            if where < len(call.args) and call.args[where] is node:
                return True
        elif any(keyword.arg == where and keyword.value is node for keyword in call.keywords):
            return True
    # A factory called with the function as its only positional argument.
    return len(call.args) == 1 and call.args[0] is node and 0 in transform.functions


@dataclass(frozen=True)
class Becomes:
    """Parameter, or attribute of the instances of a class, that receives an argument."""

    name: str
    binder: Place | None = None
    owner: ClassValue | None = None


def receiving_parameters(evaluator: Evaluator, function: Value, call: Place, argument: ast.AST) -> Iterator[Becomes]:
    """Yield the parameters or attributes that receive an argument of a call. Yield nothing if they are unknown."""
    while isinstance(function, Transformed) and function.api.name in KEEPING:
        function = function.inner
    init: Function | None = None
    if isinstance(function, ClassValue):
        init = evaluator.classes.objects.find_init(function)
        if init is None:
            yield from _fields_of_argument(evaluator, function, call, argument)
            return
    taking = init if init is not None else function
    parameters = parameters_of(taking, evaluator) if isinstance(taking, Function) else None
    given = parameters.bind_arguments(evaluator.read_arguments(call)) if parameters is not None else None
    if given is None or not isinstance(taking, Function):
        return
    args = taking.node.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        if arg.arg in given and given[arg.arg].node is argument:
            yield Becomes(arg.arg, Place(taking.place.file, arg))


def _fields_of_argument(
    evaluator: Evaluator, cls: ClassValue, call: Place, argument: ast.AST
) -> Iterator[Becomes]:
    """The field of a dataclass or Module that an argument of its generated `__init__` is."""
    names = tuple(evaluator.classes.objects.list_fields(cls))
    arguments = evaluator.read_arguments(call)
    for name in names:
        given = arguments.argument_for(name, names)
        if given is not None and given.node is argument:
            yield Becomes(name, owner=cls)


def storing_attribute(evaluator: Evaluator, function: Value, call: Place, argument: ast.AST) -> str | None:
    """The attribute under which a library keeps an argument: `TrainState.create(apply_fn=model.apply)`."""
    for name, keywords in _KEPT.items():
        if _is_class_method_call(evaluator, function, call, name):
            for keyword in getattr(call.node, "keywords", ()):
                if keyword.arg in keywords and keyword.value is argument:
                    return str(keyword.arg)
    return None


def _is_class_method_call(evaluator: Evaluator, function: Value, call: Place, name: str) -> bool:
    """Return whether a call is one of a library's class method, also through a derived class of the project."""
    if isinstance(function, Api):
        return function.name == name
    owner, _, method = name.rpartition(".")
    called = getattr(call.node, "func", None)
    if not isinstance(called, ast.Attribute) or called.attr != method:
        return False
    cls = evaluator.value(Place(call.file, called.value))
    if not isinstance(cls, ClassValue):
        return False
    return any(isinstance(base, Api) and base.name == owner for base in evaluator.list_bases(cls))
