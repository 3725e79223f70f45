"""SL235."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlint.model.signatures import JITS
from shardlint.model.values import CallResult, ClassValue, Function, Parameter, Transformed, Unknown, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import Scope, last_name
from shardlint.syntax.enclosing import around
from shardlint_rules.jit.placed import asks_for_a_place
from shardlint_rules.jit.repeated import is_test

_JITTED = (*JITS, "equinox.filter_jit", "flax.nnx.jit")
_STEP = regex(r"(?i)(^|_)(step|predict|forward|eval|evaluate)(_|$)")
_BATCH = regex(r"(?i)batch|inputs|images|tokens|examples")
# What says that something places arrays, by its name.
_PLACING = (
    "shard",
    "put",
    "place",
    "prefetch",
    "global",
    "device",
    "replicate",
    "constrain",
    "distribute",
    "to_mesh",
)


@dataclass(frozen=True)
class _Fed:
    """A call of a jitted function in a loop that is given what the loop goes over, as it comes."""

    call: ast.Call
    argument: ast.expr
    name: str
    surely: bool
    """Whether the function is surely jitted; otherwise its name says that it is a step."""


class BatchNotPlaced(Rule):
    """One loop places its batches before they go to a jitted function, and a loop beside it does not.

    ## What it does
    Reports a call of a jitted function in a loop that is given the loop's batch as it comes, where another loop of the
    same class or module puts its batches with a sharding first, itself or through a function beside it. Also a call of
    what is named a step (`self.eval_step`) and comes from elsewhere, where the other loop calls such a one too; and of
    a batch that is put with a spec of no axes (`P()`) where the other loop splits its own.

    ## Why it hurts
    A batch from a loader lies on the host, bound to no device. jit puts it whole on every device of the mesh that the
    parameters are on: each device computes all of it, and memory and time are those of one device. Nothing is raised.

    ## Use instead
    Place both the same way, or let the jit say it (`in_shardings`).

    ## Evidence
    The proof shows the result on every device. Left alone: batches that pass through anything else first, iterables
    whose name or code says that they place, and functions with `in_shardings`.
    """

    code = "SL235"
    name = "batch-not-placed"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    triggers = (Calls("jax.device_put", "jax.lax.with_sharding_constraint", "equinox.filter_shard"),)
    forms = ("call",)
    where = "host"
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the calls of the loops that do not place."""
        loop = _loop_of(site)
        if (
            loop is None
            or is_test(site.file, site.syntax)
            or not asks_for_a_place(site)
            or not _first(site, loop)
        ):
            return
        where = site.argument("device" if site.api == "jax.device_put" else "shardings")
        named = _placing_name(site.text(where)) if where is not None else False
        if where is None or not (site.shardings.shards(site.value(where)) or named):
            return
        text = " ".join(site.text(where).split())
        for argument, name in _replicated(site, loop):
            yield site.finding(
                argument,
                f"`{name}` is put whole on every device",
                f"On {site.release('jax')} every device gets all of it and computes all of it: the spec names no axis.",
                help=f"split it as the other loop does: {text}",
                form="replicated-beside",
                why=f"the loop at line {loop.lineno} puts its batch with `{text}`",
            )
        for fed in _others(site, loop):
            yield site.finding(
                fed.argument,
                f"`{fed.name}` comes from the loop as it is",
                f"On {site.release('jax')} every device gets all of it: a batch that is bound to no device is "
                "replicated to where the other arguments are.",
                help=f"place it: jax.device_put({fed.name}, {text})",
                form="beside" if fed.surely else "step-beside",
                why=f"the loop at line {loop.lineno} puts its batch with `{text}`",
            )


def _placing_name(text: str) -> bool:
    return any(word in text.lower() for word in ("data", "batch", "input")) and "shard" in text.lower()


def _loop_of(site: Site) -> ast.For | None:
    """The loop whose batch a call places, itself or in a function that the loop hands it to."""
    placed = site.call.args[0] if site.call.args else None
    while isinstance(placed, ast.Subscript | ast.Attribute):
        placed = placed.value
    if not isinstance(placed, ast.Name):
        return None
    for outer in around(site.file, site.call, ast.FunctionDef, ast.For):
        if isinstance(outer, ast.FunctionDef):
            return _loop_calling(site, outer)
        if isinstance(outer, ast.For) and (placed.id in _names(outer.target) or _drawn(outer, placed.id)):
            return outer
    return None


def _loop_calling(site: Site, helper: ast.FunctionDef) -> ast.For | None:
    """The loop that hands its batch to a function which places it: its name says so, and it places once."""
    if not any(word in helper.name.lower() for word in _PLACING):
        return None
    for node in site.file.mentions(helper.name):
        call = site.file.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node or not call.args:
            continue
        given = call.args[0]
        for outer in site.file.ancestors(call):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            if isinstance(outer, ast.For) and isinstance(given, ast.Name):
                if given.id in _names(outer.target) or _drawn(outer, given.id):
                    return outer
    return None


def _drawn(loop: ast.For, name: str) -> bool:
    """`batch = next(iterator)` in the loop."""
    return any(
        isinstance(one, ast.Assign)
        and any(name in _names(target) for target in one.targets)
        and _is_next(one.value)
        for one in loop.body
    )


def _is_next(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _first(site: Site, loop: ast.For) -> bool:
    """Whether it is the first placement in its loop: one is enough to compare with."""
    within: ast.AST = loop
    if loop not in site.file.ancestors(site.call):
        within = next(one for one in site.file.ancestors(site.call) if isinstance(one, ast.FunctionDef))
    calls = [one for one in ast.walk(within) if isinstance(one, ast.Call) and one.lineno < site.call.lineno]
    return not any("device_put" in ast.dump(one.func) for one in calls)


def _others(site: Site, loop: ast.For) -> Iterator[_Fed]:
    """Calls in the other loops of the class or module, of jitted functions that are given a batch as it comes."""
    for other in ast.walk(_together(site).node):
        if isinstance(other, ast.For) and other is not loop and not _around(site, other, loop):
            if not _places(site, other) and not is_test(site.file, other):
                yield from _fed(site, other, any(_named_step(site, one) for one in ast.walk(loop)))


def _replicated(site: Site, loop: ast.For) -> Iterator[tuple[ast.expr, str]]:
    """What other loops of the class or module put with a spec of no axes, though it is their batch."""
    for other in ast.walk(_together(site).node):
        if not isinstance(other, ast.For) or other is loop or _around(site, other, loop):
            continue
        if is_test(site.file, other):
            continue
        names = _names(other.target)
        for call in ast.walk(other):
            if not isinstance(call, ast.Call) or len(call.args) != 2 or last_name(call.func) != "device_put":
                continue
            batch = call.args[0]
            if isinstance(batch, ast.Name) and batch.id in names and _BATCH.search(batch.id):
                parts = site.sharding_parts(site.value(call.args[1]))
                spec = site.spec_of(parts[1]) if parts is not None else None
                if spec is not None and not spec.open and not any(one.axes for one in spec.entries):
                    yield call.args[1], batch.id


def _around(site: Site, one: ast.For, loop: ast.For) -> bool:
    return one in site.file.ancestors(loop) or loop in site.file.ancestors(one)


def _together(site: Site) -> Scope:
    """The class the place is in, or its module."""
    for scope in site.scope.outward():
        if scope.kind == "class":
            return scope
    return site.file.module


def _places(site: Site, loop: ast.For) -> bool:
    """Whether a loop, or what it goes over, may place its batches."""
    said = [site.text(loop.iter)]
    for node in ast.walk(loop.iter):
        if isinstance(node, ast.Name):
            scope = site.file.home(node)
            said += [
                site.text(one.value) for one in site.file.bindings(scope, node.id) if one.value is not None
            ]
    callee = loop.iter.func if isinstance(loop.iter, ast.Call) else loop.iter
    for one in options(site.value(callee)):
        if isinstance(one, Function | ClassValue):
            said.append(one.place.file.text(one.place.node))
        elif isinstance(one, CallResult) and isinstance(one.by, ClassValue):
            said.append(one.by.place.file.text(one.by.place.node))
    return any(word in text.lower() for text in said for word in _PLACING)


def _fed(site: Site, loop: ast.For, steps: bool) -> Iterator[_Fed]:
    """What a loop gives to jitted functions as it comes; with `steps` also to what is named a step."""
    names = _names(loop.target)
    own = set(ast.walk(loop.target))
    changed = {
        one.id
        for one in ast.walk(loop)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one not in own
    }
    for call in ast.walk(loop):
        if not isinstance(call, ast.Call) or len(call.args) < 2:
            continue
        surely = _jitted(site, call)
        if not surely and not (steps and _named_step(site, call)):
            continue
        for argument in call.args[1:]:
            root: ast.expr = argument
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in names - changed:
                yield _Fed(call, argument, " ".join(site.text(argument).split()), surely)
                break


def _named_step(site: Site, node: ast.AST) -> bool:
    """Whether a node is a call of what comes from elsewhere and is named a step."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return False
    if not _STEP.search(last_name(node.func)):
        return False
    return all(isinstance(one, Parameter | Unknown) for one in options(site.value(node.func)))


def _jitted(site: Site, call: ast.Call) -> bool:
    """Whether a call surely runs a jitted function that says nothing of where its arguments are."""
    found = options(site.value(call.func))
    return all(
        isinstance(one, Transformed)
        and one.api.name in _JITTED
        and one.call is not None
        and not one.call.open_keywords
        and "in_shardings" not in one.call.keywords
        for one in found
    )
