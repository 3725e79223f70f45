"""Which argument goes to which parameter: through `functools.partial`, bound self, defaults, stars, static arguments.

    parameters_of(value, evaluator)    what a function value takes
    Parameters.bind_arguments(arguments)         a call's arguments by parameter
    jitted_value(value, evaluator)     a jitted function with its settings read

All of them answer None (or nothing) where the text does not tell.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    ClassValue,
    Function,
    Place,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import Scope
from shardlint.syntax.nodes import is_static

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator

JITS = ("jax.jit", "jax.experimental.pjit.pjit")
# The keywords that give shardings of arguments and results.
SHARDING_SETTINGS = ("in_shardings", "out_shardings")
# Transforms whose result takes the arguments that the function takes.
KEEPING = frozenset(api.JIT_WRAPPERS) | frozenset(
    """
jax.checkpoint jax.grad jax.value_and_grad jax.vmap jax.jacfwd jax.jacrev
jax.hessian jax.named_call jax.custom_vjp jax.custom_jvp equinox.filter_grad
equinox.filter_value_and_grad equinox.filter_vmap equinox.filter_checkpoint flax.linen.compact
jaxtyping.jaxtyped typeguard.typechecked beartype.beartype jax.named_scope equinox.named_scope
jax.profiler.annotate_function functools.lru_cache functools.cache typing.no_type_check abc.abstractmethod
typing.override typing_extensions.override
""".split()
)
# What binds arguments of a function before it is called.
PARTIALS = ("functools.partial", "equinox.Partial", "jax.tree_util.Partial")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Parameters:
    """Parameters that a function accepts.

    `positional` are the names that positions fill, in order, of which the first `required` have no default. `star` and
    `double_star` say that it takes `*args` and `**kwargs`. `node` is the definition, where there is one.
    """

    positional: tuple[str, ...]
    required: int
    keyword_only: tuple[str, ...] = ()
    star: bool = False
    double_star: bool = False
    node: Definition | None = None

    def nonnegative_position(self, number: int) -> int | None:
        """A position counted from the front, also of a negative number; None where there is none."""
        found = number + len(self.positional) if number < 0 else number
        return found if 0 <= found < len(self.positional) else None

    def bind_arguments(self, arguments: CallArguments) -> dict[str, Place] | None:
        """The arguments of a call by parameter name; `*args` is left out. None where stars hide which is which."""
        if arguments.open_positional or arguments.open_keywords:
            return None
        given = dict(zip(self.positional, arguments.positional, strict=False))
        for name, place in arguments.keywords.items():
            given.setdefault(name, place)
        return given

    def accepts_call(self, arguments: CallArguments) -> bool:
        """Return whether a call with these arguments is possible: none is missing, and there are none too many."""
        if arguments.open_positional or arguments.open_keywords:
            return True
        given = len(arguments.positional)
        if given > len(self.positional) and not self.star:
            return False
        known = (*self.positional, *self.keyword_only)
        if not self.double_star and any(name not in known for name in arguments.keywords):
            return False
        return all(name in arguments.keywords for name in self.positional[given : self.required])

    def without_first(self) -> Parameters:
        """Return the parameters that remain when the first position is filled."""
        return replace(self, positional=self.positional[1:], required=max(0, self.required - 1))


def parameters_of_definition(node: Definition) -> Parameters:
    """The parameters of a `def` or lambda as written."""
    args = node.args
    positional = tuple(arg.arg for arg in (*args.posonlyargs, *args.args))
    return Parameters(
        positional,
        len(positional) - len(args.defaults),
        tuple(arg.arg for arg in args.kwonlyargs),
        args.vararg is not None,
        args.kwarg is not None,
        node,
    )


def takes_self(function: Scope) -> bool:
    """Return whether a function is a method whose first parameter is the object, or its class."""
    return function.parent is not None and function.parent.kind == "class" and not is_static(function.node)


def parameters_of(value: Value, evaluator: Evaluator) -> Parameters | None:
    """Return the parameters of a function value: function, method, partial, transformed function, object with
    `__call__`.
    """
    while isinstance(value, Transformed) and (
        value.api.name in KEEPING or value.api.name == "builtins.staticmethod"
    ):
        value = value.inner  # a function through many transforms is followed in one go
    found = options(value)
    if len(found) > 1:
        several = [parameters_of(option, evaluator) for option in found]
        same = {replace(one, node=None) for one in several if one is not None}
        return several[0] if len(same) == 1 and None not in several else None
    match found[0]:
        case Function() as function:
            if function.bound and _is_abstract(function.node):
                return None
            parameters = parameters_of_definition(function.node)
            return parameters.without_first() if function.bound and parameters.positional else parameters
        case Transformed(api=Api(name=name), inner=inner, call=CallArguments() as call) if name in PARTIALS:
            parameters_of_inner = parameters_of(inner, evaluator)
            return (
                _parameters_of_partial(parameters_of_inner, call) if parameters_of_inner is not None else None
            )
        case CallResult(by=ClassValue()) as instance:
            call_method = evaluator.evaluate_attribute(instance, "__call__")
            return parameters_of(call_method, evaluator) if not isinstance(call_method, Unknown) else None
    return None


def _is_abstract(node: Definition) -> bool:
    """Return whether a method only raises NotImplementedError. A subclass overrides it, and may take more
    parameters.
    """
    if isinstance(node, ast.Lambda):
        return False
    raised = node.body[-1].exc if isinstance(node.body[-1], ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _parameters_of_partial(parameters: Parameters, call: CallArguments) -> Parameters | None:
    """Return the remaining parameters of a partial, as `inspect.signature` gives them, which jax calls."""
    if call.open_positional or call.open_keywords:
        return None
    filled = len(call.positional) - 1  # the first one is the function itself
    if filled > len(parameters.positional) and not parameters.star:
        return None
    positional = parameters.positional[filled:]
    required = max(0, parameters.required - filled)
    named = [index for index, name in enumerate(positional) if name in call.keywords]
    keyword_only = parameters.keyword_only
    star = parameters.star
    if named:
        # A parameter bound by keyword, and all after it, can only be given by keyword.
        keyword_only = (*positional[named[0] :], *keyword_only)
        positional, star = positional[: named[0]], False
    return Parameters(
        positional,
        min(required, len(positional)),
        tuple(keyword_only),
        star,
        parameters.double_star,
        parameters.node,
    )


# settings


@dataclass(frozen=True)
class Jitted:
    """A jitted function: `parameters` as jit sees them (None where not known), and the settings it was given.

    `late` says that self is bound after jit (a decorated method called on an instance): then it is the first argument.
    """

    api: str
    inner: Value
    settings: CallArguments
    parameters: Parameters | None
    late: bool = False

    def setting_expression(self, name: str) -> Place | None:
        """The expression given for a keyword."""
        return self.settings.keywords.get(name)


def jitted_value(value: Value, evaluator: Evaluator, apis: tuple[str, ...] = JITS) -> Jitted | None:
    """The jitted function a value is, or None."""
    if not isinstance(value, Transformed) or value.api.name not in apis or value.call is None:
        return None
    inner, late = value.inner, False
    method = _mapped_method(inner, value.call)
    if method is not None and method.bound and _is_self_bound_later(method, value.call, evaluator):
        inner, late = _with_self(inner), True
    return Jitted(value.api.name, inner, value.call, parameters_of(inner, evaluator), late)


def _mapped_method(inner: Value, call: CallArguments) -> Function | None:
    """The function that is wrapped, also under a decorator of the same function: `@jax.pmap` above `@jax.vmap`."""
    while isinstance(inner, Transformed):
        if inner.api.name not in KEEPING or inner.call is None:
            return None
        # Only a decorator surely sees the method before self is bound; `jax.pmap(jax.vmap(self.step))` does not.
        decorated = call.place.node, inner.call.place.node
        inner = inner.inner
        of = getattr(inner.node, "decorator_list", ()) if isinstance(inner, Function) else None
        if of is not None and not all(one in of for one in decorated):
            return None
    return inner if isinstance(inner, Function) else None


def _with_self(inner: Value) -> Value:
    """A method before self is bound, also under other transforms."""
    if isinstance(inner, Function):
        return Function(inner.place, False, inner.owner)
    assert isinstance(inner, Transformed)
    return replace(inner, inner=_with_self(inner.inner))


def _is_self_bound_later(function: Function, call: CallArguments, evaluator: Evaluator) -> bool:
    """Return whether self was bound after jit: decorators and `step = jax.jit(_step)` in a class body get it
    unbound.
    """
    if call.place.node in getattr(function.node, "decorator_list", ()):
        return True
    if call.positional:
        seen = evaluator.value(call.positional[0], call.environment)
        return isinstance(seen, Function) and not seen.bound
    return False


# from settings to functions
