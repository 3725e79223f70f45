"""Which functions a call of `filter_jit` wraps, and the call with other keywords: for SL101 and SL102."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.model.values import Api, Constant, Place, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.enclosing import enclosing_nodes, is_exception_caught
from shardlint.syntax.nodes import walk_nodes

Definition = ast.FunctionDef | ast.AsyncFunctionDef
# Decorators under filter_jit through which a function keeps its arguments and results as they are.
KEEPING = (
    "jaxtyping.jaxtyped",
    "typeguard.typechecked",
    "beartype.beartype",
    "jax.named_scope",
    "equinox.named_scope",
)


class NotRewritten(Exception):
    """Why a call cannot be rewritten; the message goes into the finding's help."""


class OutOfReach(NotRewritten):
    """There is no body that the constraints could be written into; a function around it may hold them."""


@dataclass(frozen=True)
class Wrapping:
    """One function given to filter_jit: the definition it decorates, or the expression passed to it.

    `by` is the decorator or the call.
    """

    function: ast.AST
    by: ast.AST


def find_wrappings(site: Site) -> list[Wrapping]:
    """The functions wrapped with the settings of this call.

    Raises `NotRewritten` when they are not all to be seen in this file.
    """
    fun = site.argument("fun")
    if site.form == "call" and fun is not None:
        return [Wrapping(fun, site.call)]
    if site.arguments.open_positional:
        raise NotRewritten(f"a star argument at line {site.call.lineno} hides the function")
    return list(_functions_wrapped_by(site, site.call, 0))


def _functions_wrapped_by(site: Site, wrapper: ast.AST, depth: int) -> Iterator[Wrapping]:
    """The functions that a decorator factory (an expression) is applied to."""
    parent = site.file.parent(wrapper)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if isinstance(parent, Definition) and wrapper in parent.decorator_list:
        yield Wrapping(parent, wrapper)
    elif isinstance(parent, ast.Call) and parent.func is wrapper and has_one_argument(parent):
        yield Wrapping(parent.args[0], parent)
    elif isinstance(parent, ast.Call) and _adds_settings(site, parent, wrapper):
        yield from _functions_wrapped_by(site, parent, depth)
    elif isinstance(target, ast.Name) and depth < 2:
        yield from _follow_assigned_name(site, target, depth)
    else:
        raise OutOfReach(f"the function that line {site.call.lineno} wraps is not known")


def _adds_settings(site: Site, call: ast.Call, wrapper: ast.AST) -> bool:
    """Return whether a call only adds settings to a factory: `partial(sharded, donate="all")`, `sharded(donate="all")`.
    """
    if call.func is wrapper:
        names = {one.arg for one in call.keywords}
        return not call.args and bool(names) and not names & {None, "fun", *SHARDING_SETTINGS}
    called = options(site.value(call.func))
    partial = all(isinstance(one, Api) and one.name == "functools.partial" for one in called)
    return len(call.args) == 1 and call.args[0] is wrapper and partial


def has_one_argument(call: ast.Call) -> bool:
    """Return whether a call has one positional argument, and nothing else."""
    return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)


def _follow_assigned_name(site: Site, target: ast.Name, depth: int) -> Iterator[Wrapping]:
    file, scope = site.file, site.file.evaluation_scope(target)
    if len(file.bindings(scope, target.id)) > 1 or scope.kind == "class":
        raise NotRewritten(
            f"`{target.id}` at line {target.lineno} is assigned more than once, so it may wrap other functions"
        )
    if scope.kind == "module" and any(True for _ in site.program.project.files_importing(file.path, target.id)):
        raise NotRewritten(
            f"another file may import `{target.id}` of line {target.lineno} and wrap its functions with it"
        )
    for use in file.find_mentions(target.id):
        if not isinstance(use, ast.Name) or not isinstance(use.ctx, ast.Load):
            continue
        if any(binding.node is target for binding in lookup_bindings(file, use, target.id)[0]):
            yield from _functions_wrapped_by(site, use, depth + 1)


def refusal_message(site: Site, names: Iterable[str]) -> str:
    """The message that `filter_jit` does not take some keywords and raises."""
    when = "this call"
    if site.decorated is not None:
        when = f"wrapping `{site.decorated.name}`"
    elif site.argument("fun") is None:
        when = "wrapping a function"
    keywords = " and no ".join(f"`{name}`" for name in names)
    return f"On {site.release('equinox')} `filter_jit` takes no {keywords}: {when} raises ValueError."


def describe_other_function(site: Site) -> str:
    """The other function that the called name may be, in words; empty if it is always `filter_jit`."""
    called = site.callee_expression
    named = [one.name for one in options(site.value(called)) if isinstance(one, Api) and one.name != site.api]
    return f"`{site.text(called)}` is {site.api} or {named[0]}" if named else ""


def has_another_way(site: Site) -> bool:
    """Return whether the error that the call raises is caught, and other code runs instead."""
    return is_exception_caught(site.file, site.syntax) and not _is_none_after_error(site)


def _is_none_after_error(site: Site) -> bool:
    """Return whether every handler around the call sets the name of its result to None."""
    bound = site.file.parent(site.syntax)
    tried = next(enclosing_nodes(site.file, site.syntax, ast.Try), None)
    if not isinstance(bound, ast.Assign) or not isinstance(tried, ast.Try):
        return False
    names = {ast.unparse(target) for target in bound.targets}
    return all(
        any(
            isinstance(one, ast.Assign)
            and isinstance(one.value, ast.Constant)
            and one.value.value is None
            and names & {ast.unparse(target) for target in one.targets}
            for one in handler.body
        )
        for handler in tried.handlers
    )


def positional_parameters(node: Definition | ast.Lambda) -> list[ast.arg]:
    """Parameters that take positional arguments."""
    return [*node.args.posonlyargs, *node.args.args]


def donate_mode(site: Site) -> str | None:
    """The donate mode; None when the text does not tell."""
    place: Place | None = site.arguments.keywords.get("donate")
    if place is None:
        return None if site.arguments.open_keywords else "none"
    value = site.program.evaluator.value(place)
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


def call_without_keywords(
    site: Site, names: set[str], put: Mapping[str, tuple[str, str]] = MappingProxyType({})
) -> tuple[Edit, tuple[str, ...]]:
    """The call without some keywords, and the names it stops using.

    `put` gives keyword and value that stand in the place of one. With no arguments left the call is
    `filter_jit` itself.
    """
    import libcst as cst

    from shardlint.rules_api.cst import code_of_node, parse_expression, with_arguments

    call = site.node
    assert isinstance(call, cst.Call)
    args = []
    for arg in call.args:
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if keyword in put:
            name, value = put[keyword]
            args.append(arg.with_changes(keyword=cst.Name(name), value=parse_expression(value)))
        elif keyword not in names:
            args.append(arg)
    gone: list[ast.AST] = [keyword for keyword in site.call.keywords if keyword.arg in names]
    if site.form == "call" and not args:
        text = code_of_node(call.func)
    elif site.form == "partial" and len(args) == 1:
        text = code_of_node(args[0].value)
        gone.append(site.call.func)
    else:
        text = code_of_node(with_arguments(call, args))
    drops = {part.id: None for node in gone for part in walk_nodes(node) if isinstance(part, ast.Name)}
    return site.replace(site.call, text), tuple(drops)
