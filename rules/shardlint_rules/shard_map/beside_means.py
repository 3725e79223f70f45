"""Gradients that are applied as each device has them or added up, beside a mean of something else. Shared by rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.manual.collectives import AXIS_AT
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import names_in, walk

GRADS = ("jax.grad", "jax.value_and_grad")
SAYS = ("pmean(", "psum(")
_MEANS = ("pmean", "psum")
_APPLIES = ("update", "apply_gradients", "apply_gradient", "apply_updates")
_MEASURE = regex(
    r"(^|_)(l|loss|losses|cost|metrics?|acc|accuracy|info|aux|stats?|scalars?|logs?|measurements?|summar\w+|error|"
    r"\w*norms?|l2\w*|td\w*|kl|entropy|weights?_sum|denom\w*|total|num\w*|count|extras?)(_|$)",
    re.I,
)
# What may average out of sight, by name, or takes the axis.
_ELSEWHERE = regex(
    r"(?i)p_?mean|p_?sum|all_?reduce|cross_replica|synchroni|sync_|averag|mean_grad|aggregat|accumul|axis"
)
_REDUCES = regex(r"pmean|psum|all_gather|axis_name|all_reduce")
_REDUCED = regex(r"\b(?:jax\.)?lax\.p(?:mean|sum)\(")
_SCALES = regex(r"(?i)div|scal|mul|mean|norm|averag|/|\*")
_WEIGHTS = regex(r"(?i)param|state|weight|model|opt")


@dataclass(frozen=True)
class Unaveraged:
    """Where the gradients are applied, what they are called, and the call that reduces something else, with that."""

    applied: ast.Call
    gradients: str
    mean: ast.Call
    what: str


def unaveraged(site: Site) -> Unaveraged | None:
    """The gradients of a site's `jax.grad` that nothing averages, beside a loss or measure that is averaged."""
    if site.file.says("shard_map") or site.file.says("xmap"):
        return None
    function = _called_in(site)
    if function is None or not site.call.args or _loss_reduces(site, site.call.args[0]):
        return None
    body = list(_own(function))
    named = _gradients(site, body)
    if named is None:
        return None
    means = [one for one in body if isinstance(one, ast.Call) and last_name(one.func) in AXIS_AT and one.args]
    gradients, beside = named
    derived = _derived(site, body, gradients)
    if derived is None:
        return None
    measured = next((one for one in body if isinstance(one, ast.Call) and _helps(site, one)), None)
    for call in means:
        if last_name(call.func) == "axis_index":
            continue
        names = names_in(call.args[0])
        if names & derived or any(_WEIGHTS.search(name) and not _MEASURE.search(name) for name in names):
            return None
        if last_name(call.func) in _MEANS and any(name in beside or _MEASURE.search(name) for name in names):
            measured = measured or (call if _is_jax(site, call) else None)
    applied = next((one for one in body if isinstance(one, ast.Call) and _applies(site, one, derived)), None)
    if measured is None or applied is None:
        return None
    direct = last_name(measured.func) in _MEANS
    what = site.text(measured.args[0]) if direct else ", ".join(sorted(_target(site, measured)))
    return Unaveraged(applied, gradients, measured, " ".join(what.split()))


@dataclass(frozen=True)
class Summed:
    """Gradients that are added up over the devices, the call that does so, and why they are those of a mean."""

    call: ast.Call
    gradients: str
    why: str


def summed(site: Site) -> Summed | None:
    """The gradients of a site's `jax.grad` that are added up over devices and applied as they are, of a mean."""
    function = _called_in(site) if not site.file.says("shard_map") else None
    if function is None or not site.call.args or _loss_reduces(site, site.call.args[0]):
        return None
    body = list(_own(function))
    named = _gradients(site, body)
    if named is None:
        return None
    gradients, beside = named
    calls = [one for one in body if isinstance(one, ast.Call) and last_name(one.func) in AXIS_AT and one.args]
    sums = [one for one in calls if names_in(one.args[0]) == {gradients} and isinstance(one.args[0], ast.Name)]
    if len(sums) != 1 or last_name(sums[0].func) != "psum" or not _is_jax(site, sums[0]):
        return None
    derived = {gradients}
    for node in body:
        if isinstance(node, ast.Assign) and names_in(node.value) & derived:
            derived |= {name for name in _bound(*node.targets) if not _MEASURE.search(name)}
    for node in body:
        if (
            isinstance(node, ast.BinOp | ast.AugAssign | ast.Call)
            and names_in(node) & derived
            and scales(site, node)
        ):
            return None
    if not any(isinstance(one, ast.Call) and _applies(site, one, derived) for one in body):
        return None
    for call in calls:
        names = names_in(call.args[0])
        if last_name(call.func) == "pmean" and _is_jax(site, call) and any(name in beside for name in names):
            return Summed(
                sums[0], gradients, f"line {call.lineno} takes the mean of `{site.text(call.args[0])}`"
            )
    return None


def scales(site: Site, node: ast.AST) -> bool:
    """Whether an expression divides or multiplies, or calls what may do so by its name."""
    if isinstance(node, ast.Call):
        return _SCALES.search(last_name(node.func)) is not None or any(
            _SCALES.search(site.text(one)) for one in node.args if isinstance(one, ast.Lambda)
        )
    return isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult)


def _called_in(site: Site) -> ast.FunctionDef | None:
    """The function that takes gradients: the one around the site, or one in it that calls what the site is bound to."""
    scope = site.scope.function()
    statement = site.file.statement(site.call)
    if (
        isinstance(statement, ast.Assign)
        and statement.value is site.call
        and isinstance(statement.targets[0], ast.Name)
    ):
        name = statement.targets[0].id
        outer = scope.node if scope is not None else site.file.tree
        for one in walk(outer):
            if (
                isinstance(one, ast.FunctionDef)
                and one is not outer
                and any(_calls(node, name) for node in _own(one))
            ):
                return one
    return scope.node if scope is not None and isinstance(scope.node, ast.FunctionDef) else None


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _helps(site: Site, call: ast.Call) -> bool:
    """Whether a call of a function of the project reduces the measures that it gives."""
    if not any(_MEASURE.search(name) for name in _target(site, call)) or not isinstance(call.func, ast.Name):
        return False
    if not _MEASURE.search(call.func.id):
        return False
    found = [one for one in options(site.value(call.func)) if isinstance(one, Function)]
    return bool(found) and all(_REDUCED.search(one.place.file.text(one.node)) for one in found)


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What stands in a function, in the order of its text, without the functions in it."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def _gradients(site: Site, body: list[ast.AST]) -> tuple[str, frozenset[str]] | None:
    """The name that is bound to the gradients alone, and those bound beside it."""
    statement = site.file.statement(site.call)
    whole = isinstance(statement, ast.Assign) and statement.value is site.call
    made = _bound(*statement.targets) if isinstance(statement, ast.Assign) and whole else set[str]()
    for node in body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if not isinstance(node.value, ast.Call):
            continue
        func = node.value.func
        if func is not site.call and not (isinstance(func, ast.Name) and func.id in made):
            continue
        both = site.api == "jax.value_and_grad"
        more = any(one.arg == "has_aux" for one in site.call.keywords)
        match target:
            case ast.Tuple(elts=[first, ast.Name(id=name)]) if both:
                return name, frozenset(_bound(first))
            case ast.Tuple(elts=[ast.Name(id=name), rest]) if more:
                return name, frozenset(_bound(rest))
            case ast.Name(id=name) if not both and not more:
                return name, frozenset()
        return None
    return None


def _derived(site: Site, body: list[ast.AST], gradients: str) -> frozenset[str] | None:
    """The names that are made of the gradients, measures aside; None where something may average them."""
    derived, seen = {gradients}, False
    for node in body:
        if isinstance(node, ast.Assign) and gradients in _bound(*node.targets) and not seen:
            seen = True
            continue
        if not seen:
            continue
        if isinstance(node, ast.Call) and names_in(node) & derived:
            if not _applies(site, node, derived) and _ELSEWHERE.search(site.text(node)):
                given = _target(site, node)
                if not given or any(not _MEASURE.search(name) for name in given):
                    return None
        if isinstance(node, ast.Assign) and names_in(node.value) & derived:
            derived |= {name for name in _bound(*node.targets) if not _MEASURE.search(name)}
    return frozenset(derived)


def _target(site: Site, node: ast.AST) -> set[str]:
    statement = site.file.statement(node)
    return _bound(*statement.targets) if isinstance(statement, ast.Assign) else set()


def _applies(site: Site, call: ast.Call, derived: frozenset[str] | set[str]) -> bool:
    """Whether a call gives gradients to an optimizer, and nothing in sight of it averages them."""
    if last_name(call.func) not in _APPLIES or not isinstance(call.func, ast.Attribute):
        return False
    if isinstance(call.func.value, ast.Name) and _MEASURE.search(call.func.value.id):
        return False
    given = [*call.args[:2], *(one.value for one in call.keywords)]
    if not any(isinstance(one, ast.Name) and one.id in derived for one in given):
        return False
    for option in options(site.value(call.func)):
        if isinstance(option, Function) and _REDUCES.search(option.place.file.text(option.node)):
            return False
    return True


def _loss_reduces(site: Site, loss: ast.expr) -> bool:
    """Whether the function that is differentiated reduces over devices, as far as it is in sight."""
    texts = [site.text(loss)]
    if isinstance(loss, ast.Name):
        for one in lookup(site.file, loss, loss.id)[0]:
            if isinstance(one.node, ast.FunctionDef):
                texts.append(site.text(one.node))
            elif one.value is not None:
                texts.append(site.text(one.value))
    for option in options(site.value(loss)):
        if isinstance(option, Function):
            texts.append(option.place.file.text(option.node))
    return any(_REDUCES.search(text) for text in texts)


def _is_jax(site: Site, call: ast.Call) -> bool:
    """Whether a call is one of jax's collectives, or of a function of the project that stands for it."""
    found = options(site.value(call.func))
    return bool(found) and all(
        one.name.startswith("jax.lax.")
        if isinstance(one, Api)
        else isinstance(one, Function) and _REDUCED.search(one.place.file.text(one.node)) is not None
        for one in found
    )


def _bound(*targets: ast.AST) -> set[str]:
    return set[str]().union(*map(names_in, targets))
