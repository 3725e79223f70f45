"""SL327."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, CallResult, Constant, Parameter, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex

_DEVICE_MESH = "jax.experimental.mesh_utils.create_device_mesh"
_HYBRID = "jax.experimental.mesh_utils.create_hybrid_device_mesh"
_MAKE_MESH = "jax.make_mesh"
_LOCAL_DATA = "jax.make_array_from_process_local_data"
_SHAPES = {
    _DEVICE_MESH: "mesh_shape",
    _HYBRID: "mesh_shape",
    _MAKE_MESH: "axis_shapes",
}
_COUNTS = ("builtins.len", "jax.device_count", "jax.local_device_count", "jax.process_count", "math.prod")
_BETWEEN = regex(r"(?:^|[^a-z])(?:dcn|between|inter)(?:[^a-z]|$)|num_slices|n_slices")
_WITHIN = regex(r"(?:^|[^a-z])(?:ici|within|intra)(?:[^a-z]|$)")


class WrongArgument(Rule):
    """A function that makes meshes or arrays is given what belongs to another of its parameters, or is no such thing.

    ## What it does
    Reports

    - a number for the shape of a mesh: `create_device_mesh(len(jax.devices()))`, `jax.make_mesh(8, ("data",))`;
    - `create_hybrid_device_mesh` with the shape between slices first, where the names of both arguments say so
      (`dcn_parallelism, ici_parallelism`);
    - `make_array_from_process_local_data(sharding, args)` in a function that takes `*args`.

    ## Why it hurts
    A number raises `TypeError: 'int' object is not iterable`. Swapped shapes make a mesh whose fast axes lie between
    the slices: it raises on one slice, and is slow on several where both products happen to fit. `args` is a tuple,
    so a tuple of arrays comes back.

    ## Fix safety
    Safe for a number: it raised before. Unsafe for swapped shapes: the names may lie.

    ## Evidence
    Run on jax 0.12: both functions raise for a number, and local data that is a tuple gives a tuple. The parameters
    of `create_hybrid_device_mesh` are `mesh_shape, dcn_mesh_shape` on every release looked at.
    """

    code = "SL327"
    name = "wrong-argument"
    harm = Harm.CRASH
    likely = ("swapped", "star-args")
    triggers = (Calls(*_SHAPES, _LOCAL_DATA),)
    forms = ("call",)
    closed = ("positional",)
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if site.api == _LOCAL_DATA:
            yield from self._local_data(site)
            return
        shape = site.argument(_SHAPES[site.api])
        if shape is None and site.api == _MAKE_MESH:
            shape = site.argument("axis_sizes")
        if shape is not None and _is_number(site.value(shape)):
            yield self._number(site, shape)
        elif site.api == _HYBRID and shape is not None:
            yield from self._swapped(site, shape)

    def _number(self, site: Site, shape: ast.expr) -> Finding:
        text = f"({site.text(shape)},)"
        return site.finding(
            shape,
            f"On {site.release('jax')} this raises TypeError: 'int' object is not iterable.",
            label="a number, and no shape",
            help=f"write {text}",
            fix=site.fix(Safety.SAFE, f"write {text}", [site.replace(shape, text)]),
        )

    def _swapped(self, site: Site, within: ast.expr) -> Iterator[Finding]:
        between = site.argument("dcn_mesh_shape")
        if between is None or not site.wants("swapped"):
            return
        first, second = _names(site, within), _names(site, between)
        if _BETWEEN.search(first) and not _WITHIN.search(first) and not _BETWEEN.search(second):
            yield site.finding(
                within,
                "The first parameter is the shape within a slice, and dcn_mesh_shape, between slices, the second.",
                label="this is the shape between slices",
                help=f"write {site.text(between)} first",
                fix=self._swap(site, within, between),
                certainty=Certainty.POSSIBLE,
                form="swapped",
                why=f"`{site.text(within)[:40]}` speaks of the network between slices, and the other does not",
            )

    def _swap(self, site: Site, one: ast.expr, other: ast.expr) -> Fix:
        edits = [site.replace(one, site.text(other)), site.replace(other, site.text(one))]
        return site.fix(Safety.UNSAFE, "swap them", edits, "the names may lie")

    def _local_data(self, site: Site) -> Iterator[Finding]:
        data = site.argument("local_data")
        value = site.value(data) if data is not None else None
        if data is None or not isinstance(value, Parameter):
            return
        function = site.scope.function()
        given = (
            getattr(getattr(function.node, "args", None), "vararg", None) if function is not None else None
        )
        if given is None or given.arg != value.name or value.place.node is not given:
            return
        yield site.finding(
            data,
            f"`{value.name}` is a tuple here: what comes back is a tuple of arrays, one for each argument.",
            label="the tuple of all arguments",
            help=f"write {value.name}[0], or name the parameter",
            harm=Harm.SILENT,
            certainty=Certainty.POSSIBLE,
            form="star-args",
            why="one array is what such a function is mostly asked for",
        )


def _is_number(value: Value) -> bool:
    return all(
        (isinstance(one, Constant) and type(one.value) is int)
        or (isinstance(one, CallResult) and isinstance(one.by, Api) and one.by.name in _COUNTS)
        for one in options(value)
    )


def _names(site: Site, node: ast.expr) -> str:
    """The words of an argument, and of the tuple or list that a local name stands for."""
    text = site.text(node).lower()
    if isinstance(node, ast.Name):
        for scope in site.scope.outward():
            bindings = site.file.bindings(scope, node.id)
            if bindings:
                value = bindings[-1].value
                named = isinstance(value, ast.Tuple | ast.List)
                return f"{text} {site.text(value).lower()}" if named and value is not None else text
    return text
