"""SL243."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.origins import value_origins
from shardlint.facts.placements import is_inside_placing_call, is_placed_later, placed_by_callers
from shardlint.model.values import (
    Api,
    CallArguments,
    CallResult,
    Constant,
    Function,
    Leaves,
    Place,
    Value,
    options,
)
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint_rules.jit.mapped_leaves import array_values, may_be_sharded_array, trees_mapped_over

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
# Names of functions that are meant to gather.
_GATHERS = compile_lazily(r"(?i)gather|unshard|to_host|(?:from|on|to)_one|single_device|replicate|collect")
_DEPTH = 4


class LostThroughHost(Rule):
    """A sharded array is copied to the host and back, and ends up on one device.

    The result needs the memory of the full array on one device: a numpy array has no sharding. Under `jax.set_mesh`,
    `jnp.asarray` replicates the array over the mesh. A step that was compiled for sharded weights compiles again for
    unsharded weights. Nothing raises.

    ## Reports
    - `placed` (likely): a numpy copy of a sharded array that becomes a jax array again: `jnp.asarray(np.asarray(x))`,
      `jax.device_put(np.array(x))`, `jax.tree.map(jnp.asarray, jax.device_get(params))`. Also if a variable or
      attribute holds the copy in between.

    ## Write instead
    Compute on the devices: `x.astype(dtype)`, `jnp.copy(x)`. If you need the copy on the host, write
    `jax.device_put(copy, x.sharding)` to move it back.

    ## Limits
    Not reported: copies in a function with a name such as `gather`, copies that numpy changes or concatenates, and
    results that the surrounding code or a caller places again.
    """

    code = "SL243"
    name = "lost-through-host"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("placed",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "placed": "The sharding shards the array, and no other code places the copy again."
    }
    triggers = (
        Calls(*_BACK, file_says=_COPYING),
        Calls("jax.tree.map", file_says=tuple(f"map({name}" for name in _MAPPED)),
    )
    closed = ("positional", "keywords")
    where = "host"
    in_tests = False
    fixes = "none"

    @detector("call", of="jax.tree.map", finds="placed")
    def report_tree(self, site: Site) -> Finding | None:
        """A function of jax that makes arrays of a tree of copies."""
        match site.call.args:
            case [function, copy] if _converts_to_jax(site, function):
                return _make_finding(site, copy)
        return None

    @detector("call", of=_BACK, finds="placed")
    def report_array(self, site: Site) -> Finding | None:
        """A call that makes an array of a copy."""
        arguments = site.arguments
        if not site.call.args or len(arguments.positional) > 2 or any(one in arguments.keywords for one in _WHERE):
            return None
        if site.api == "jax.device_put" and len(site.call.args) > 1:
            return None
        return _make_finding(site, site.call.args[0])


def _make_finding(site: Site, copy: ast.expr) -> Finding | None:
    """The finding of a copy of a sharded array that is not placed again."""
    if any(_GATHERS.search(getattr(one, "name", None) or "") for one in site.file.ancestors(site.call)):
        return None
    if not any(may_be_sharded_array(site, one) for one in list(_find_copied(site, copy))):
        return None
    outer = next((call for _, call in trees_mapped_over(site, _find_root(site.call.args[0]))), site.call)
    if any(is_inside_placing_call(site, one) or is_placed_later(site, one) for one in (site.call, outer)):
        return None
    if placed_by_callers(site):
        return None
    replicated = site.api != "jax.device_put" and site.is_named_anywhere("set_mesh")
    where = "one device (replicated under `jax.set_mesh`)" if replicated else "one device"
    return site.finding(
        site.call,
        f"`{site.shown(_find_root(copy))}` ends up on {where}: the numpy copy has no sharding.",
        help="write `jax.device_put(copy, x.sharding)` with the sharded array x, or do not copy the array to the host",
        why="the array that is copied may be sharded; jax puts a numpy array on the default device",
    )


def _converts_to_jax(site: Site, node: ast.expr) -> bool:
    values = options(site.value(node))
    return all(isinstance(one, Api) and one.name in _BACK for one in values)


def _find_root(node: ast.expr) -> ast.expr:
    """The array inside host functions: `x` of `np.asarray(x).astype(dtype)`."""
    while isinstance(node, ast.Call):
        func = node.func
        receiver = func.value if isinstance(func, ast.Attribute) and func.attr in _SAME else None
        if receiver is not None and (isinstance(receiver, ast.Call) or not node.args):
            node = receiver
        elif node.args:
            node = node.args[0]
        else:
            return node
    return node


def _find_copied(site: Site, node: ast.expr, depth: int = 0) -> Iterator[Value]:
    """The arrays that a host array is a copy of; none if it may be something else."""
    if depth > _DEPTH:
        return
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=args) if attr in _SAME:
            module = isinstance(inner, ast.Name) and isinstance(site.value(node.func), Api)
            yield from _find_copied(site, args[0] if module and args else inner, depth + 1)
            return
        case ast.Call(args=[array, *_]):
            values = options(site.value(node.func))
            if all(isinstance(one, Api) and one.name in _HOST for one in values):
                yield from array_values(site, array)
                return
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return
    for place in [place for place, _ in trees_mapped_over(site, node)] or [Place(site.file, node)]:
        yield from _arrays_copied_to_host(site, site.program.value(place.file, place.node), depth)


def _arrays_copied_to_host(site: Site, value: Value, depth: int) -> Iterator[Value]:
    """The arrays that a stored value is a copy of, if it is a copy or None on every path."""
    values: list[Value] = []
    for one in options(value):
        if one == Constant(None):
            continue
        originals = list(_find_originals(site, one, depth))
        if not originals:
            return
        values += originals
    yield from values


def _find_originals(site: Site, value: Value, depth: int) -> Iterator[Value]:
    if isinstance(value, Leaves):
        yield from _arrays_copied_to_host(site, value.of, depth + 1)
    if not isinstance(value, CallResult) or value.call is None or not value.call.positional:
        return
    if value.api in _HOST:
        yield from value_origins(site.program, value.call.positional[0])
    elif (
        value.api == "jax.tree.map"
        and len(value.call.positional) == 2
        and _map_copies_to_host(site, value.call)
    ):
        yield from value_origins(site.program, value.call.positional[1])


def _map_copies_to_host(site: Site, call: CallArguments) -> bool:
    """True if the function of a `tree.map` copies to the host."""
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
