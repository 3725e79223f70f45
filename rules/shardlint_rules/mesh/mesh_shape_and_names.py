"""SL304."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from shardlint.model.shapes import Shape, shape_of
from shardlint.model.values import CallResult, Constant, Items, Place, Value, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.mesh._stand_in import fuller

_MESH = "jax.sharding.Mesh"
_MAKE = "jax.make_mesh"
_ABSTRACT = "jax.sharding.AbstractMesh"


class MeshShapeAndNames(Rule):
    """The axis names of a mesh do not fit its devices or its shape.

    ## What it does
    Reports a mesh with more or fewer axis names than its devices have dimensions (a list of devices has
    one); a shape, or `axis_types`, of another length than the names; the same name twice; `None` as a
    name; a shape that is a number, or has a -1. `("data")` is a string, which names one axis: `("data",)`
    is a tuple.

    With `--certainty possible` also a function that computes a list of names and then gives the mesh its
    parameter instead, and a mesh of one device that has all but some of the axes of another mesh of the
    project: code written for that one cannot run under it.

    ## Why it hurts
    `ValueError: Mesh requires the ndim of its first argument (devices) to equal the length of its second
    argument (axis_names)`. A name that stands twice is accepted, but the mesh then has that axis once: an
    array sharded over it raises `INVALID_ARGUMENT` from inside the compiler.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Devices whose dimensions the text does
    not tell, and names from a configuration, are left alone.
    """

    code = "SL304"
    name = "mesh-shape-and-names"
    harm = Harm.CRASH
    likely = ("stand-in", "unused-names")
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
        if found is None and names is not None:
            found = self._unused_names(site, names)
        if found is None and names is not None and site.api == _MESH:
            found = self._lacks_an_axis(site, names)
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
                site, shape, "a number is not a shape", "TypeError", f"write ({site.text(shape)},)"
            )
        if isinstance(value, Items) and Constant(-1) in value.items:
            return self._raises(site, shape, "-1 is not a size here", "ValueError", "write every size out")
        return None

    def _names(self, site: Site, node: ast.expr, value: Value) -> Finding | None:
        """Names that no mesh can have."""
        if value == Constant(None):
            return self._raises(
                site, node, "None is not a name", "TypeError", "name the axes, one a dimension"
            )
        if not isinstance(value, Items):
            return None
        if Constant(None) in value.items and site.api != _ABSTRACT:
            return self._raises(site, node, "None is not an axis name", "ValueError", "name every axis")
        names = [
            item.value for item in value.items if isinstance(item, Constant) and isinstance(item.value, str)
        ]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if not twice:
            return None
        return site.finding(
            node,
            f'On {site.release("jax")} this is accepted, but the mesh has the axis "{twice[0]}" once, with one of the '
            "sizes: arrays sharded over it raise.",
            label=f'"{twice[0]}" names two axes',
            help="give every axis a name of its own",
        )

    def _lengths(self, site: Site, node: ast.expr, value: Value) -> Finding | None:
        """Names that are more or fewer than what they name."""
        count = _count(value)
        if count is None:
            return None
        named = "1 axis is named" if count == 1 else f"{count} axes are named"
        if isinstance(value, Constant) and isinstance(node, ast.Constant):
            named = "a string names 1 axis"
        shape = self._dimensions(site)
        if shape is not None and len(shape) != count:
            has = "1 dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
            what = "the devices have" if site.api == _MESH else "the shape has"
            return self._raises(site, node, f"{named}, {what} {has}", "ValueError", "one name a dimension")
        types = site.argument("axis_types")
        given = _single(site, types)
        if types is not None and isinstance(given, Items) and not given.open and len(given.items) != count:
            label = f"{named}, with {len(given.items)} axis types"
            return self._raises(site, types, label, "ValueError", "one type an axis")
        return None

    def _dimensions(self, site: Site) -> Shape | None:
        if site.api == _MESH:
            devices = site.argument("devices")
            return (
                shape_of(site.program.evaluator, Place(site.file, devices)) if devices is not None else None
            )
        shape = _single(site, site.argument("axis_shapes" if site.api == _MAKE else "axis_sizes"))
        return (None,) * len(shape.items) if isinstance(shape, Items) and not shape.open else None

    def _lacks_an_axis(self, site: Site, node: ast.expr) -> Finding | None:
        """A mesh of one device with all but one of the names of the mesh that it stands in for."""
        found = fuller(site)
        if found is None:
            return None
        mesh, axis = found
        file = mesh.place.file
        where = f"line {mesh.place.line}" if file is site.file else f"{file.path.name}:{mesh.place.line}"
        return site.finding(
            node,
            f'On {site.release("jax")} what names "{axis}", as the mesh made at {where} has it, raises ValueError '
            "under this mesh of one device.",
            label=f'no axis "{axis}"',
            help="give a mesh that stands in for another all of its axes",
            certainty=Certainty.POSSIBLE,
            form="stand-in",
            why=f"its axes are among those of the mesh made at {where}",
        )

    def _raises(self, site: Site, node: ast.expr, label: str, error: str, help: str) -> Finding:
        return site.finding(node, f"On {site.release('jax')} this raises {error}.", label=label, help=help)

    def _unused_names(self, site: Site, node: ast.expr) -> Finding | None:
        """`Mesh(devices, names)` where the function has worked out other names that nobody reads."""
        scope = site.scope
        if not isinstance(node, ast.Name) or scope.kind != "function":
            return None
        given = site.file.bindings(scope, node.id)
        if not given or any(binding.kind != "param" for binding in given):
            return None
        for name, bindings in scope.bindings.items():
            if name == node.id or "name" not in name or any(binding.kind != "assign" for binding in bindings):
                continue
            copied = any(isinstance(b.value, ast.Name) and b.value.id == node.id for b in bindings)
            if (
                copied
                and len(bindings) > 1
                and all(use.lineno < site.call.lineno for use in _reads(site, name))
            ):
                return site.finding(
                    node,
                    f"The mesh gets the names as they were given, in their order; `{name}` may have another.",
                    label=f"`{name}` is worked out and not used",
                    help=f"write {name}",
                    harm=Harm.SILENT,
                    certainty=Certainty.POSSIBLE,
                    form="unused-names",
                    why=f"`{name}` begins as `{node.id}`, is changed, and nothing reads it after",
                )
        return None


def _patched(site: Site) -> bool:
    """Whether the mesh may be a stand-in that a test put in its place."""
    return any(
        isinstance(outer, ast.With) and any("patch" in site.text(item.context_expr) for item in outer.items)
        for outer in site.file.ancestors(site.call)
    )


def _reads(site: Site, name: str) -> list[ast.Name]:
    found = [use for use in site.file.mentions(name) if isinstance(use, ast.Name)]
    return [use for use in found if isinstance(use.ctx, ast.Load) and site.file.home(use) is site.scope]


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
