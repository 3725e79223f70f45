"""Functions whose result is made from shapes alone: compiled, they read none of the arrays they are given."""

from __future__ import annotations

import ast

from shardlint.model.values import Api, Constant, Function, Place, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint_rules.jit.optimizers import is_init_of_large_state, keeps_state

_LIKE = tuple(f"jax.numpy.{name}" for name in ("zeros_like", "ones_like", "full_like", "empty_like"))
SHAPED = tuple(f"jax.numpy.{name}" for name in ("zeros", "ones", "empty", "full"))
"""Makers of an array of the shape they are given."""


# They give the arrays of a model or state as another tree.
_PARTS = (
    "equinox.filter",
    "flax.nnx.state",
    "flax.nnx.to_pure_dict",
    "flax.core.freeze",
    "flax.core.unfreeze",
)


STATE = "the optimizer state"
BESIDE = "the optimizer state of the train state"
"""Arrays like others in the same result: the program then runs on the devices of these."""
_CREATE = "flax.training.train_state.TrainState.create"


def describe_fresh_result(site: Site, node: ast.expr | ast.FunctionDef) -> str | None:
    """The result that a function passed to jit makes of shapes alone, in words; None if it does more."""
    return _describe_fresh_function(site, Place(site.file, node))


def _describe_fresh_function(site: Site, place: Place) -> str | None:
    if is_init_of_large_state(site, place):
        return STATE
    words = [_describe_fresh_value(site, option) for option in options(site.program.evaluator.value(place))]
    return words[0] if all(words) else None


def _describe_fresh_value(site: Site, value: Value) -> str | None:
    if isinstance(value, Api):
        return f"the result of `{value.name.rpartition('.')[2]}`" if value.name in _LIKE else None
    bound: set[str] = set()
    if isinstance(value, Transformed) and value.api.name == "functools.partial" and value.call is not None:
        bound = set(value.call.keywords)
        if len(value.call.positional) > 1 or value.call.open_positional or value.call.open_keywords:
            return None
        value = value.inner
    if not isinstance(value, Function):
        return None
    args = value.node.args
    names = {arg.arg for arg in (*args.posonlyargs, *args.args)} - bound
    body = _Body(site, value.place.file, names)
    returned = body.returned_expression(value)
    return body.describe_made_arrays(returned) if returned is not None else None


@dataclass
class _Body:
    """A function that only names things on the way to its result. `names` are its parameters and parts of them."""

    site: Site
    file: FileFacts
    names: set[str]

    def returned_expression(self, function: Function) -> ast.expr | None:
        """Return the result of a function; None if it does more than return."""
        node = function.node
        self.file.walk_scope(self.file.scope(node))
        if isinstance(node, ast.Lambda):
            return node.body
        named: dict[str, ast.expr] = {}
        for statement in node.body:
            match statement:
                case ast.Expr(value=ast.Constant()):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if self._is_parameter_part(value):
                        self.names.add(name)
                    else:
                        named[name] = value
                        self.names.discard(name)
                case ast.Return(value=ast.Name(id=name)) if name in named:
                    return named[name]
                case ast.Return(value=value) if not isinstance(node, ast.AsyncFunctionDef):
                    return value
                case _:
                    return None
        return None

    def describe_made_arrays(self, node: ast.expr) -> str | None:
        """Return a description of the arrays that a returned expression makes from shapes alone, also inside a train
        state.
        """
        if isinstance(node, ast.Call) and self._keeps_moments(node):
            return BESIDE
        if not isinstance(node, ast.Call) or any(keyword.arg != "dtype" for keyword in node.keywords):
            return None
        if (
            is_init_of_large_state(self.site, Place(self.file, node.func))
            and len(node.args) == 1
            and self._is_parameter_part(node.args[0])
        ):
            return STATE
        callee = self._value_of_expression(node.func)
        if not isinstance(callee, Api) or not node.args:
            return None
        word, scalars = callee.name.rpartition(".")[2], all(self._is_scalar(part) for part in node.args[1:])
        if callee.name in _LIKE and self._is_parameter_part(node.args[0]):
            return f"the result of `{word}`" if scalars else None
        if callee.name in SHAPED and self._is_parameter_shape(node.args[0]):
            return f"the result of `{word}`" if scalars else None
        if callee.name == "jax.tree.map" and len(node.args) == 2 and self._is_parameter_part(node.args[1]):
            return _describe_fresh_function(self.site, Place(self.file, node.args[0]))
        return None

    def _keeps_moments(self, node: ast.Call) -> bool:
        """Return whether a call is `TrainState.create` of the argument, with an optimizer that stores arrays like
        it.
        """
        callee = self._value_of_expression(node.func)
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if not isinstance(callee, Api) or callee.name != _CREATE or not {"params", "tx"} <= given.keys():
            return False
        return (
            self._is_parameter_part(given["params"])
            and keeps_state(self.site, self._value_of_expression(given["tx"])) is True
        )

    def _value_of_expression(self, node: ast.expr) -> Value:
        return self.site.program.evaluator.value(Place(self.file, node))

    def _is_parameter_part(self, node: ast.expr) -> bool:
        """Return whether an expression is a parameter or a part of one."""
        match node:
            case ast.Name():
                return node.id in self.names
            case ast.Attribute() | ast.Subscript():
                return node.__dict__.get("attr") != "shape" and self._is_parameter_part(node.value)
            case ast.Call(args=[first, *_]):
                callee = self._value_of_expression(node.func)
                return isinstance(callee, Api) and callee.name in _PARTS and self._is_parameter_part(first)
        return False

    def _is_parameter_shape(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Attribute) and node.attr == "shape" and self._is_parameter_part(node.value)
        )

    def _is_scalar(self, node: ast.expr) -> bool:
        """A fill value or dtype that is not an array."""
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            return True
        return isinstance(self._value_of_expression(node), Constant | Api)
