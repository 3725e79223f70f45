"""SL304."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from shardlint.model.shapes import Shape, shape_of
from shardlint.model.values import CallResult, Constant, Items, Place, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site

_MESH = "jax.sharding.Mesh"
_MAKE = "jax.make_mesh"
_ABSTRACT = "jax.sharding.AbstractMesh"


class MeshShapeAndNames(Rule):
    """The axis names of a mesh do not match its devices or its shape.

    `Mesh` raises `ValueError`: it requires one axis name per dimension of the device array. `Mesh` accepts a repeated
    name, but placing an array that is sharded over that axis raises `INVALID_ARGUMENT`.

    ## Reports
    - proven: a mesh with more or fewer axis names than its devices or its shape have dimensions. `("data")` is a string
      and names one axis.
    - proven: `axis_types` whose length differs from the number of axis names.
    - proven: a repeated axis name, or `None` as a name.
    - proven: a number, or a shape with -1, as the shape for `jax.make_mesh`.

    ## Limits
    Not reported: device arrays of unknown rank, and axis names from a configuration.
    """

    code = "SL304"
    name = "mesh-shape-and-names"
    harm = Harm.CRASH
    assumes = True
    triggers = (Calls(_MESH, _MAKE, _ABSTRACT),)
    forms = ("call",)
    closed = ("positional",)

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if _patched(site):
            return
        if site.api == _ABSTRACT and site.allows("jax", "<0.5"):
            return  # it takes pairs there
        names = site.argument("axis_names")
        value = _single(site, names)
        found = self._shape(site)
        if found is None and names is not None and value is not None:
            found = self._names(site, names, value) or self._lengths(site, names, value)
        if found is not None:
            yield found

    def _shape(self, site: Site) -> Finding | None:
        """A shape for make_mesh that is none."""
        shape = site.argument("axis_shapes") if site.api == _MAKE else None
        value = _single(site, shape)
        if shape is None or value is None:
            return None
        if isinstance(value, Constant) and isinstance(value.value, int):
            return self._raises(
                site,
                shape,
                f"the shape `{site.shown(shape)}` is a number",
                "TypeError",
                f"write ({site.text(shape)},)",
            )
        if isinstance(value, Items) and Constant(-1) in value.items:
            return self._raises(site, shape, "-1 is not an axis size", "ValueError", "write every size")
        return None

    def _names(self, site: Site, node: ast.expr, value: Value) -> Finding | None:
        """Names that no mesh can have."""
        if value == Constant(None):
            return self._raises(
                site, node, "`axis_names` is None", "TypeError", "write one axis name per dimension"
            )
        if not isinstance(value, Items):
            return None
        if Constant(None) in value.items and site.api != _ABSTRACT:
            return self._raises(site, node, "one axis name is None", "ValueError", "name every axis")
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

    def _lengths(self, site: Site, node: ast.expr, value: Value) -> Finding | None:
        """Names that are more or fewer than what they name."""
        count = _count(value)
        if count is None:
            return None
        named = "one axis name" if count == 1 else f"{count} axis names"
        shape = self._dimensions(site)
        if shape is not None and len(shape) != count:
            has = "one dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
            what = "devices" if site.api == _MESH else "a shape"
            why = "a string is one name; a tuple needs a comma" if isinstance(node, ast.Constant) else ""
            help = "write one axis name per dimension"
            return self._raises(site, node, f"{named} for {what} of {has}", "ValueError", help, why)
        types = site.argument("axis_types")
        given = _single(site, types)
        if types is not None and isinstance(given, Items) and not given.open and len(given.items) != count:
            mistake = f"{named} with {len(given.items)} axis types"
            return self._raises(site, types, mistake, "ValueError", "write one axis type per axis name")
        return None

    def _dimensions(self, site: Site) -> Shape | None:
        if site.api == _MESH:
            devices = site.argument("devices")
            return (
                shape_of(site.program.evaluator, Place(site.file, devices)) if devices is not None else None
            )
        shape = _single(site, site.argument("axis_shapes" if site.api == _MAKE else "axis_sizes"))
        return (None,) * len(shape.items) if isinstance(shape, Items) and not shape.open else None

    def _raises(
        self, site: Site, node: ast.expr, mistake: str, error: str, help: str, why: str = ""
    ) -> Finding:
        called = site.api.rpartition(".")[2]
        return site.finding(
            node, f"On {site.release('jax')} `{called}` raises {error}: {mistake}.", help=help, why=why
        )


def _patched(site: Site) -> bool:
    """Return whether the mesh may be a stand-in that a test has patched in."""
    return any(
        isinstance(outer, ast.With) and any("patch" in site.text(item.context_expr) for item in outer.items)
        for outer in site.file.ancestors(site.call)
    )


def _single(site: Site, node: ast.expr | None) -> Value | None:
    """The value of an argument, if it is one for certain."""
    if node is None:
        return None
    found = options(site.value(node))
    return found[0] if len(found) == 1 and not isinstance(found[0], CallResult) else None


def _count(value: Value) -> int | None:
    if isinstance(value, Constant) and isinstance(value.value, str):
        return 1
    return len(value.items) if isinstance(value, Items) and not value.open else None
