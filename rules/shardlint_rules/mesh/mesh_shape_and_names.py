"""SL304."""

from __future__ import annotations

import ast
from collections import Counter

from shardlint.model.shapes import Shape
from shardlint.model.values import CallResult, Constant, Items, Place, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site

_MESH = "jax.sharding.Mesh"
_MAKE = "jax.make_mesh"
_ABSTRACT = "jax.sharding.AbstractMesh"


class MeshShapeAndNames(Rule):
    """The axis names of a mesh do not match its devices or its shape.

    Creating the mesh raises ValueError: jax requires one axis name per dimension. A number as the shape, or
    `axis_names=None`, raises TypeError. jax accepts a repeated name, but placing an array that is sharded over this
    axis raises `INVALID_ARGUMENT`.

    ## Reports
    - proven: a mesh with more or fewer axis names than dimensions of its device array or its shape. `("data")` is a
      string and names one axis.
    - proven: `axis_types` whose length differs from the number of axis names.
    - proven: a repeated axis name, or `None` as a name.
    - proven: a number, or a tuple that contains -1, as the shape for `jax.make_mesh`.

    ## Limits
    Not reported: device arrays of unknown rank, and axis names from a configuration.
    """

    code = "SL304"
    name = "mesh-shape-and-names"
    harm = Harm.CRASH
    assumes = True
    triggers = (Calls(_MESH, _MAKE, _ABSTRACT),)
    closed = ("positional",)

    @detector("call", of=_MAKE)
    def report_shape(self, site: Site) -> Finding | None:
        """A shape for make_mesh that is none."""
        shape = site.argument("axis_shapes")
        value = _single_value(site, shape)
        if shape is None or value is None or _is_mesh_patched(site):
            return None
        if isinstance(value, Constant) and isinstance(value.value, int):
            help = f"write ({site.text(shape)},)"
            return _make_finding(site, shape, f"the shape `{site.shown(shape)}` is a number", "TypeError", help)
        if isinstance(value, Items) and Constant(-1) in value.items:
            return _make_finding(site, shape, "-1 is not an axis size", "ValueError", "write every size")
        return None

    @detector("call")
    def report_names(self, site: Site) -> Finding | None:
        """Names that no mesh can have."""
        node = site.argument("axis_names")
        value = _single_value(site, node)
        if node is None or _is_mesh_patched(site) or _takes_pairs(site):
            return None
        if value == Constant(None):
            return _make_finding(site, node, "`axis_names` is None", "TypeError", "write one axis name per dimension")
        if not isinstance(value, Items):
            return None
        if Constant(None) in value.items and site.api != _ABSTRACT:
            return _make_finding(site, node, "one axis name is None", "ValueError", "name every axis")
        names = [
            item.value for item in value.items if isinstance(item, Constant) and isinstance(item.value, str)
        ]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if not twice:
            return None
        return site.finding(
            node,
            f'Arrays sharded over "{twice[0]}" raise INVALID_ARGUMENT: two axes of this mesh have this name.',
            label=f'"{twice[0]}" twice',
            help="give every axis a different name",
            why=f"{site.release('jax')} accepts the mesh, and keeps the axis once, with one of the sizes",
        )

    @detector("call")
    def report_lengths(self, site: Site) -> Finding | None:
        """Names that are more or fewer than what they name."""
        node = site.argument("axis_names")
        value = _single_value(site, node)
        count = _count_names(value) if value is not None else None
        if node is None or count is None or _is_mesh_patched(site) or _takes_pairs(site):
            return None
        named = "one axis name" if count == 1 else f"{count} axis names"
        shape = _find_dimensions(site)
        if shape is not None and len(shape) != count:
            has = "one dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
            what = "devices" if site.api == _MESH else "a shape"
            why = "a string is one name; a tuple needs a comma" if isinstance(node, ast.Constant) else ""
            help = "write one axis name per dimension"
            return _make_finding(site, node, f"{named} for {what} of {has}", "ValueError", help, why)
        types = site.argument("axis_types")
        given = _single_value(site, types)
        if types is not None and isinstance(given, Items) and not given.open and len(given.items) != count:
            mistake = f"{named} with {len(given.items)} axis types"
            return _make_finding(site, types, mistake, "ValueError", "write one axis type per axis name")
        return None


def _make_finding(site: Site, node: ast.expr, mistake: str, error: str, help: str, why: str = "") -> Finding:
    called = site.short_name
    return site.finding(node, f"On {site.release('jax')} `{called}` raises {error}: {mistake}.", help=help, why=why)


def _find_dimensions(site: Site) -> Shape | None:
    """The shape of the mesh, as far as it is known."""
    if site.api == _MESH:
        devices = site.argument("devices")
        return site.shape_of(Place(site.file, devices)) if devices is not None else None
    shape = _single_value(site, site.argument("axis_shapes" if site.api == _MAKE else "axis_sizes"))
    return (None,) * len(shape.items) if isinstance(shape, Items) and not shape.open else None


def _takes_pairs(site: Site) -> bool:
    """Return whether this is an AbstractMesh of a release that takes pairs of a name and a size."""
    return site.api == _ABSTRACT and site.allows("jax", "<0.5")


def _is_mesh_patched(site: Site) -> bool:
    """Return whether the mesh may be a stand-in that a test has patched in."""
    return any(
        isinstance(outer, ast.With) and any("patch" in site.text(item.context_expr) for item in outer.items)
        for outer in site.file.ancestors(site.call)
    )


def _single_value(site: Site, node: ast.expr | None) -> Value | None:
    """The value of an argument, if it is one for certain."""
    if node is None:
        return None
    found = options(site.value(node))
    return found[0] if len(found) == 1 and not isinstance(found[0], CallResult) else None


def _count_names(value: Value) -> int | None:
    if isinstance(value, Constant) and isinstance(value.value, str):
        return 1
    return len(value.items) if isinstance(value, Items) and not value.open else None
