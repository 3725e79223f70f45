"""Function wrapped by a `filter_jit`: one with a body to write into, or a transformed function without one."""

from __future__ import annotations

import ast

from shardlint.facts.jit_settings import STATIC_SETTINGS, argnum_positions, setting_names
from shardlint.model.signatures import Parameters, parameters_of
from shardlint.model.values import Api, CallResult, Function, Transformed
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint_rules.equinox._shardings_inside.forwarding_decorators import forwards_unchanged
from shardlint_rules.equinox.wrapped_functions import (
    KEEPING,
    Definition,
    NotRewritten,
    OutOfReach,
    Wrapping,
    positional_parameters,
)

# What equinox or jax makes of a function that takes what the function takes.
_SAME_ARGUMENTS = (
    "equinox.filter_grad",
    "equinox.filter_value_and_grad",
    "equinox.filter_vmap",
    "equinox.filter_checkpoint",
    "jax.grad",
    "jax.value_and_grad",
    "jax.vmap",
    "jax.checkpoint",
)
# Decorators under filter_jit through which a function keeps its arguments and results as they are, and which are
# none of donation's.
_KEEPING = (
    *KEEPING,
    "functools.wraps",
    "equinox.debug.assert_max_traces",
    "chex.assert_max_traces",
    "jax.named_call",
    "jax.profiler.annotate_function",
    "equinox.filter_jit",
)


@dataclass(frozen=True)
class WrittenFunction:
    """A function with a body. `names` are the parameters that positions fill, without those that are called static,
    as jax counts them; the last `spare` have defaults."""

    function: Definition | ast.Lambda
    names: list[str]
    spare: int


@dataclass(frozen=True)
class WithoutBody:
    """A function that went through a transform: the expression, or the definition that is decorated with it."""

    text: str
    parameters: Parameters
    by: ast.AST
    node: ast.expr | None = None
    decorated: ast.FunctionDef | None = None


def find_wrapped_function(site: Site, wrapping: Wrapping) -> WrittenFunction | WithoutBody:
    """The function of a wrapping. Raises `NotRewritten` where it is not sure that only this wrapper runs it so."""
    node = wrapping.function
    if not isinstance(node, Definition):
        return _function_or_reason(site, wrapping)
    between = _decorators_between(site, node, wrapping.by)
    if between is not None:
        return between
    return _written_function(node, [arg.arg for arg in positional_parameters(node)], len(node.args.defaults), site)


def _written_function(node: Definition | ast.Lambda, every: list[str], spare: int, site: Site) -> WrittenFunction:
    if isinstance(node, ast.AsyncFunctionDef):
        raise NotRewritten(f"`{node.name}` at line {node.lineno} is async, and jit does not trace async functions")
    if isinstance(node, ast.FunctionDef) and any(
        not isinstance(found, ast.Return) for found in site.file.walk_scope(site.file.scope(node)).returns
    ):
        raise NotRewritten(f"`{node.name}` at line {node.lineno} is a generator, and jit does not trace generators")
    static = _static_parameters(site, every)
    kept = [name for name in every if name not in static]
    return WrittenFunction(node, kept, sum(name not in static for name in every[len(every) - spare :]))


def _static_parameters(site: Site, every: list[str]) -> set[str]:
    """The parameters that the call says are static: `in_shardings` has no entries for them."""
    found: set[str] = set()
    for setting in STATIC_SETTINGS:
        place = site.arguments.keywords.get(setting)
        read = (argnum_positions if setting.endswith("nums") else setting_names)(
            place, site.arguments, site.program.evaluator
        )
        if read is None:
            raise NotRewritten(
                f"the value of `{setting}` is not known, and in_shardings leaves the static arguments out"
            )
        for one in read:
            if isinstance(one, str):
                found.add(one)
            elif -len(every) <= one < len(every):
                found.add(every[one])
    return found


def _decorators_between(site: Site, node: Definition, by: ast.AST) -> WithoutBody | None:
    """Decorators between filter_jit and the definition that make another function of it."""
    place = next(index for index, decorator in enumerate(node.decorator_list) if decorator is by)
    transform = False
    for decorator in node.decorator_list[place + 1 :]:
        value = site.value(decorator)
        api = value.by if isinstance(value, CallResult) else value
        if isinstance(value, Transformed) and value.api.name == "functools.partial":
            api = value.inner
        if isinstance(api, Api) and api.name in _SAME_ARGUMENTS:
            transform = True
        elif not (isinstance(api, Api) and api.name in _KEEPING) and not forwards_unchanged(site, decorator):
            raise NotRewritten(
                f"`@{site.text(decorator)}` at line {decorator.lineno} may change the arguments or "
                f"results of `{node.name}`"
            )
    if not transform:
        return None
    if not isinstance(node, ast.FunctionDef) or site.file.evaluation_scope(node).kind == "class" or place:
        raise NotRewritten(f"a decorator of `{node.name}` at line {node.lineno} runs before filter_jit")
    parameters = parameters_of(site.program.evaluator.definition_value(site.file, node), site.program.evaluator)
    assert parameters is not None
    return WithoutBody(node.name, parameters, by, decorated=node)


def _function_or_reason(site: Site, wrapping: Wrapping) -> WrittenFunction | WithoutBody:
    node = wrapping.function
    text = site.shown(node)
    if isinstance(node, ast.Lambda):
        return _written_function(node, [arg.arg for arg in positional_parameters(node)], len(node.args.defaults), site)
    value = site.value(node)
    bound = 0
    inner = value
    if isinstance(value, Transformed):
        if value.api.name != "functools.partial":
            return _explain_transformed(site, wrapping, value, text)
        inner = value.inner
        bound = -1
    if not isinstance(inner, Function) or not isinstance(node, ast.expr):
        raise OutOfReach(f"`{text}` at line {site.call.lineno} is not a plain function of this file")
    definition = inner.node
    if inner.place.file is not site.file:
        raise OutOfReach(f"`{text}` is defined in {inner.place.file.path.name}")
    parameters = parameters_of(value, site.program.evaluator)
    if parameters is None:
        raise OutOfReach(f"the parameters of `{text}` at line {site.call.lineno} are not known")
    if inner.owner is not None or site.file.evaluation_scope(definition).kind == "class":
        _check_method(site, inner, text)
    elif isinstance(node, ast.Call) and not bound:
        raise OutOfReach(f"`{text}` at line {site.call.lineno} is not a plain function of this file")
    _check_alone(site, definition, wrapping, text)
    every = list(parameters.positional)
    return _written_function(definition, every, len(every) - parameters.required, site)


def _check_method(site: Site, method: Function, text: str) -> None:
    """A method whose self is supplied, which no other class of the file replaces."""
    if not method.bound:
        raise OutOfReach(f"`{text}` at line {site.call.lineno} is a method without its self")
    assert isinstance(method.node, ast.FunctionDef | ast.AsyncFunctionDef)
    if method.node.decorator_list:
        raise OutOfReach(f"`{text}` has a decorator at line {method.node.decorator_list[0].lineno}")
    same = [one for one in site.file.find_mentions(method.node.name) if isinstance(one, Definition)]
    if len(same) > 1:
        raise OutOfReach(f"lines {same[0].lineno} and {same[1].lineno} both define `{method.node.name}`")


def _check_alone(site: Site, definition: Definition | ast.Lambda, wrapping: Wrapping, text: str) -> None:
    ends = site.program.flow.ends(site.file, definition)
    for end in ends.found:
        if not any(wrapper.place.node is wrapping.by for wrapper in end.wrappers):
            raise OutOfReach(
                f"{site.where(end.place)} uses `{text}` without this wrapper"
            )


def _explain_transformed(site: Site, wrapping: Wrapping, value: Transformed, text: str) -> WithoutBody:
    parameters = parameters_of(value, site.program.evaluator)
    inner = value.inner
    if value.api.name not in _SAME_ARGUMENTS or parameters is None or isinstance(inner, Transformed):
        raise OutOfReach(f"`{text}` at line {site.call.lineno} is the result of another transform")
    if isinstance(inner, Function) and inner.bound:
        raise OutOfReach(
            f"`{text}` at line {site.call.lineno} comes from a method, and a wrapper would close "
            "over its `self`"
        )
    assert isinstance(wrapping.function, ast.expr)
    return WithoutBody(text, parameters, wrapping.by, node=wrapping.function)
