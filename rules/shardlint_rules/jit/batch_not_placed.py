"""SL235."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlint.facts import Scope
from shardlint.program.signatures import JITS
from shardlint.program.values import ClassValue, Function, Made, Wrapped, options
from shardlint.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.site import Site
from shardlint_rules.jit._again import is_test
from shardlint_rules.jit.placed import asks_for_a_place

_JITTED = (*JITS, "equinox.filter_jit", "flax.nnx.jit")
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


class BatchNotPlaced(Rule):
    """One loop places its batches before they go to a jitted function, and a loop beside it does not.

    ## What it does
    Reports a call of a jitted function in a loop that is given the loop's batch as it comes, where another loop of the
    same class or module puts its batches with a sharding first.

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
    wakes = (Calls("jax.device_put", "jax.lax.with_sharding_constraint", "equinox.filter_shard"),)
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
        for fed in _others(site, loop):
            yield site.finding(
                fed.argument,
                f"`{fed.name}` comes from the loop as it is",
                f"On {site.on('jax')} every device gets all of it: a batch that is bound to no device is replicated to "
                "where the other arguments are.",
                help=f"place it: jax.device_put({fed.name}, {text})",
                form="beside",
                why=f"the loop at line {loop.lineno} puts its batch with `{text}`",
            )


def _placing_name(text: str) -> bool:
    return any(word in text.lower() for word in ("data", "batch", "input")) and "shard" in text.lower()


def _loop_of(site: Site) -> ast.For | None:
    """The loop whose batch a call places."""
    placed = site.call.args[0] if site.call.args else None
    while isinstance(placed, ast.Subscript | ast.Attribute):
        placed = placed.value
    if not isinstance(placed, ast.Name):
        return None
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return None
        if isinstance(outer, ast.For) and (placed.id in _names(outer.target) or _drawn(outer, placed.id)):
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
    calls = [one for one in ast.walk(loop) if isinstance(one, ast.Call) and one.lineno < site.call.lineno]
    return not any("device_put" in ast.dump(one.func) for one in calls)


def _others(site: Site, loop: ast.For) -> Iterator[_Fed]:
    """Calls in the other loops of the class or module, of jitted functions that are given a batch as it comes."""
    for other in ast.walk(_together(site).node):
        if isinstance(other, ast.For) and other is not loop and not _around(site, other, loop):
            if not _places(site, other) and not is_test(site.file, other):
                yield from _fed(site, other)


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
        elif isinstance(one, Made) and isinstance(one.by, ClassValue):
            said.append(one.by.place.file.text(one.by.place.node))
    return any(word in text.lower() for text in said for word in _PLACING)


def _fed(site: Site, loop: ast.For) -> Iterator[_Fed]:
    names = _names(loop.target)
    own = set(ast.walk(loop.target))
    changed = {
        one.id
        for one in ast.walk(loop)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one not in own
    }
    for call in ast.walk(loop):
        if not isinstance(call, ast.Call) or len(call.args) < 2 or not _jitted(site, call):
            continue
        for argument in call.args[1:]:
            root: ast.expr = argument
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in names - changed:
                yield _Fed(call, argument, " ".join(site.text(argument).split()))
                break


def _jitted(site: Site, call: ast.Call) -> bool:
    """Whether a call surely runs a jitted function that says nothing of where its arguments are."""
    found = options(site.value(call.func))
    return all(
        isinstance(one, Wrapped)
        and one.api.name in _JITTED
        and one.call is not None
        and not one.call.open_keywords
        and "in_shardings" not in one.call.keywords
        for one in found
    )
