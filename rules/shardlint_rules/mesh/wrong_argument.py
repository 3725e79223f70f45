"""SL327."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Api, CallResult, Constant, Parameter, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site

_DEVICE_MESH = "jax.experimental.mesh_utils.create_device_mesh"
_HYBRID = "jax.experimental.mesh_utils.create_hybrid_device_mesh"
_MAKE_MESH = "jax.make_mesh"
_LOCAL_DATA = "jax.make_array_from_process_local_data"
_SHAPES = {
    _DEVICE_MESH: "mesh_shape",
    _HYBRID: "mesh_shape",
    _MAKE_MESH: "axis_shapes",
}
_ITERATING = ">=0.4.38"
"""The releases of jax whose `create_device_mesh` iterates over the shape; older ones take a number too."""
_COUNTS = ("builtins.len", "jax.device_count", "jax.local_device_count", "jax.process_count", "math.prod")


class WrongArgument(Rule):
    """A function that makes meshes or arrays gets a number for a shape, or a tuple for an array.

    ## Reports
    - proven: a number as the shape of a mesh: `create_device_mesh(len(jax.devices()))`,
      `jax.make_mesh(8, ("data",))`. It raises `TypeError: 'int' object is not iterable`.
    - `star-args` (likely): `make_array_from_process_local_data(sharding, args)` in a function that takes `*args`.
      `args` is a tuple, so the call returns a tuple of arrays instead of one array.

    ## Fix
    Writes the number as a tuple.

    ## Limits
    Before jax 0.4.38 only `jax.make_mesh` is reported: older `create_device_mesh` functions take a number.
    """

    code = "SL327"
    name = "wrong-argument"
    harm = Harm.CRASH
    likely = ("star-args",)
    assumptions: ClassVar[Mapping[str, str]] = {"star-args": "The caller expects one array, not a tuple."}
    triggers = (Calls(*_SHAPES, _LOCAL_DATA),)
    closed = ("positional",)
    fixes = "safe"

    @detector("call", of=tuple(_SHAPES))
    def report_shape(self, site: Site) -> Finding | None:
        """A number in the place of a shape."""
        if site.api != _MAKE_MESH and not site.allows("jax", _ITERATING):
            return None
        shape = site.argument(_SHAPES[site.api])
        if shape is None and site.api == _MAKE_MESH:
            shape = site.argument("axis_sizes")
        if shape is None or not _is_number(site.value(shape)):
            return None
        text = f"({site.text(shape)},)"
        return site.finding(
            shape,
            f"On {site.release('jax')} `{site.short_name}` raises TypeError: the shape is a number.",
            label="a number, not a shape",
            help=f"write {text}",
            fix=site.fix(Safety.SAFE, f"write {text}", [site.replace(shape, text)]),
        )

    @detector("call", of=_LOCAL_DATA, finds="star-args")
    def report_local_data(self, site: Site) -> Finding | None:
        """The tuple of all arguments in the place of the local data."""
        data = site.argument("local_data")
        value = site.value(data) if data is not None else None
        if data is None or not isinstance(value, Parameter):
            return None
        function = site.scope.enclosing_function()
        given = (
            getattr(getattr(function.node, "args", None), "vararg", None) if function is not None else None
        )
        if given is None or given.arg != value.name or value.place.node is not given:
            return None
        return site.finding(
            data,
            f"The result is a tuple of arrays: `{value.name}` is the tuple of all positional arguments.",
            label="a tuple",
            help=f"write {value.name}[0], or name the parameter",
            harm=Harm.SILENT,
            why=f"the function takes `*{value.name}`, and a tuple of local data gives a tuple of arrays",
        )


def _is_number(value: Value) -> bool:
    return all(
        (isinstance(one, Constant) and type(one.value) is int)
        or (isinstance(one, CallResult) and isinstance(one.by, Api) and one.by.name in _COUNTS)
        for one in options(value)
    )
