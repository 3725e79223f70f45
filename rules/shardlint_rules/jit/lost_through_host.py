"""SL243."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy

from shardlint.model.reach import assigned_once
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    Constant,
    Function,
    Leaves,
    Place,
    Unknown,
    Value,
    options,
)
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.jit.leaf import array_values, leaves_of, origins, seems_spread
from shardlint_rules.jit.placed import placed_around, placed_by_callers, placed_later

_BACK = ("jax.numpy.asarray", "jax.numpy.array", "jax.device_put")
_WHERE = ("device", "sharding", "out_sharding")
_HOST = ("numpy.asarray", "numpy.array", "numpy.copy", "numpy.ascontiguousarray", "jax.device_get")
_COPYING = (
    "device_get",
    "np.asarray(",
    "np.array(",
    "np.asarray,",
    "np.array,",
    "numpy.asarray",
    "numpy.array",
)
_MAPPED = ("jnp.a", "jax.numpy.a", "jax.device_put", "asarray", "device_put", "array")
# Methods and functions that give a host array of a host array.
_SAME = (
    "astype",
    "copy",
    "view",
    "clip",
    "nan_to_num",
    "round",
    "maximum",
    "minimum",
    "where",
    "ascontiguousarray",
)
# What makes one host array of several.
_JOINING = tuple(
    f"numpy.{name}" for name in ("stack", "concatenate", "hstack", "vstack", "dstack", "column_stack")
)
# Names of functions that are there to bring the whole to one place.
_GATHERS = regex(r"(?i)gather|unshard|to_host|(?:from|on|to)_one|single_device|replicate|collect")
_DEPTH = 4


class LostThroughHost(Rule):
    """A sharded array is copied to the host and back, and comes back on one device.

    ## What it does
    Reports `jnp.asarray(np.asarray(x))`, `jnp.array(jax.device_get(x).astype(dtype))`, `jax.device_put(np.array(x))`
    and `jax.tree.map(jnp.asarray, jax.device_get(params))`, at once or with the copy kept under a name or in an
    attribute in between, joined with others (`np.stack`) or computed with, where `x` is placed over a mesh, or is a
    weight of an NNX model that flax places as it is made, and what comes back is not placed again.

    ## Why it hurts
    A numpy array knows nothing of devices: what is made of it lies whole on the first one. The weights need the memory
    of the whole there, and the step that was compiled for sharded ones is compiled once more, for unsharded ones.
    Nothing is raised.

    ## Use instead
    What jax does where the array is: `x.astype(dtype)`, `jnp.copy(x)`. For a copy that was kept on the host,
    `jax.device_put(kept, shardings)`, with the shardings that the arrays had.

    ## Evidence
    The proof shows the weights on one device. Left alone: functions that gather by their name, arrays that are placed
    by what stands around the call, later, or by those who call the function, and arrays of which nothing tells that
    they are spread.
    """

    code = "SL243"
    name = "lost-through-host"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("placed",)
    triggers = (
        Calls(*_BACK, file_says=_COPYING),
        Calls("jax.tree.map", file_says=tuple(f"map({name}" for name in _MAPPED)),
    )
    forms = ("call",)
    closed = ("positional", "keywords")
    where = "host"
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a way back."""
        if not site.call.args:
            return
        mapped = site.api == "jax.tree.map"
        if mapped and (len(site.call.args) != 2 or not _goes_back(site, site.call.args[0])):
            return
        if not mapped and (
            len(site.arguments.positional) > 2 or any(one in site.arguments.keywords for one in _WHERE)
        ):
            return
        if site.api == "jax.device_put" and len(site.call.args) > 1:
            return
        if any(_GATHERS.search(getattr(one, "name", None) or "") for one in site.file.ancestors(site.call)):
            return
        copied = list(_copied(site, site.call.args[1 if mapped else 0]))
        if not copied or not any(seems_spread(site, one) for one in copied):
            return
        outer = next((call for _, call in leaves_of(site, _root(site.call.args[0]))), site.call)
        if any(placed_around(site, one) or placed_later(site, one) for one in (site.call, outer)):
            return
        if placed_by_callers(site):
            return
        where = "the first device"
        if site.api != "jax.device_put" and site.anywhere("set_mesh"):
            where += ", under jax.set_mesh on every one"
        yield site.finding(
            site.call,
            f"On {site.release('jax')} this lies whole on {where}: numpy keeps no sharding.",
            label="a copy on the host goes back to one device",
            help="place it again: jax.device_put(..., x.sharding), or leave it on the devices: x.astype(...)",
            certainty=Certainty.POSSIBLE,
            form="placed",
            why="what was copied is placed by a sharding that may split it",
        )


def _goes_back(site: Site, node: ast.expr) -> bool:
    found = options(site.value(node))
    return all(isinstance(one, Api) and one.name in _BACK for one in found)


def _root(node: ast.expr) -> ast.expr:
    """The array that host functions are given, of an expression such as `np.asarray(x).astype(dtype)`."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME and not node.args[:1]:
            node = node.func.value
        elif node.args:
            node = node.args[0]
        else:
            return node
    return node


def _copied(site: Site, node: ast.expr, depth: int = 0) -> Iterator[Value]:
    """The arrays that a host array is a copy of, where it surely is one."""
    if depth > _DEPTH:
        return
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=args) if attr in _SAME:
            module = isinstance(inner, ast.Name) and isinstance(site.value(node.func), Api)
            yield from _copied(site, args[0] if module and args else inner, depth + 1)
            return
        case ast.Call(args=[array, *_]):
            found = options(site.value(node.func))
            if all(isinstance(one, Api) and one.name in _HOST for one in found):
                yield from array_values(site, array)
                return
            if all(isinstance(one, Api) and one.name in _JOINING for one in found):
                yield from _joined(site, array, depth)
                return
        case ast.BinOp(left=left, right=right):
            # What is computed with a copy lies on the host, unless the other side is on a device.
            sides = [list(_copied(site, one, depth + 1)) for one in (left, right)]
            if all(found or _is_number(site, one) for found, one in zip(sides, (left, right), strict=True)):
                yield from (one for found in sides for one in found)
            return
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return
    trees = [place for place, _ in leaves_of(site, node)]
    part = _part_of(site, node)
    if not trees and part is not None and isinstance(site.value(node), Unknown):
        yield from _copied(site, part, depth + 1)
        return
    for place in trees or [Place(site.file, node)]:
        yield from _of_value(site, site.program.value(place.file, place.node), depth)


def _of_value(site: Site, value: Value, depth: int) -> Iterator[Value]:
    """The same of a value that was kept: on every way a copy, or nothing yet."""
    found: list[Value] = []
    for one in options(value):
        if one == Constant(None):
            continue
        kept = list(_kept(site, one, depth))
        if not kept:
            return
        found += kept
    yield from found


def _kept(site: Site, value: Value, depth: int) -> Iterator[Value]:
    if isinstance(value, Leaves):
        yield from _of_value(site, value.of, depth + 1)
    if not isinstance(value, CallResult) or value.call is None or not value.call.positional:
        return
    if value.api in _JOINING:
        given = value.call.positional[0]
        there = copy(site)
        there.file = given.file
        yield from _joined(there, given.node, depth)
    elif value.api in _HOST:
        yield from origins(site.program, value.call.positional[0])
    elif value.api == "jax.tree.map" and len(value.call.positional) == 2 and _copies(site, value.call):
        yield from origins(site.program, value.call.positional[1])


def _part_of(site: Site, node: ast.expr) -> ast.expr | None:
    """The tree of which an expression is an entry, also under a name."""
    if isinstance(node, ast.Name):
        only = assigned_once(site.file, node)
        return only.value if isinstance(only, ast.Subscript) else None
    return node.value if isinstance(node, ast.Subscript) else None


def _is_number(site: Site, node: ast.expr) -> bool:
    """Whether an expression surely is a number, or an array of numpy that is computed here."""
    return all(
        isinstance(one, Constant) or (isinstance(one, CallResult) and one.api.startswith("numpy."))
        for one in options(site.value(node))
    )


def _joined(site: Site, node: ast.AST, depth: int) -> Iterator[Value]:
    """The arrays that are joined on the host, where each of them surely is a copy."""
    if isinstance(node, ast.Name):
        node = assigned_once(site.file, node) or node
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    found = [list(_copied(site, one, depth + 1)) for one in parts]
    if found and all(found):
        yield from (one for part in found for one in part)


def _copies(site: Site, call: CallArguments) -> bool:
    """Whether the function of a `tree.map` copies to the host."""
    function = site.program.evaluator.value(call.positional[0], call.environment)
    if isinstance(function, Api):
        return function.name in _HOST
    if not isinstance(function, Function) or not isinstance(function.node, ast.Lambda):
        return False
    body = function.node.body
    made = (
        site.program.value(function.place.file, body.func) if isinstance(body, ast.Call) else Constant(None)
    )
    return isinstance(made, Api) and made.name in _HOST
