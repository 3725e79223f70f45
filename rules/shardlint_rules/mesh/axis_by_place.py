"""SL337."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.rules_api.rule import Certainty, Finding, Harm, Keywords, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.mesh._size_by_place import sizes_by_place

_SIZES = ("devices.shape", "axis_sizes", "axis_names[", "shape.values()")


class AxisByPlace(Rule):
    """A mesh axis is taken by its place among all axes of the mesh, and another one stands there.

    ## What it does
    Reports `spmd_axis_name=mesh.axis_names[0]`, where the axis is taken by its place among all axes of the mesh. And
    `num_replicas = mesh.devices.shape[0]`, `mesh.axis_sizes[0]` and the like, where the axis that stands there is not
    the one that the name speaks of, by the names that the text gives the axes of the mesh.

    ## Why it hurts
    Which axis is first is up to whoever makes the mesh. With another order the mapped dimension (stages of a pipeline,
    experts) is split over the data axis, and nothing is raised. What is computed of a size (the global batch, a
    learning rate) is wrong by the ratio of two axes, and is right where they are of one size.

    ## Use instead
    The name of the axis, or the spec of what is mapped: `spmd_axis_name=stage_spec[0]`; `mesh.shape["data"]`.

    ## Evidence
    The proof shows the stages split over the data axis. Left alone: meshes of one axis, and names from a spec.
    """

    code = "SL337"
    name = "mesh-axis-by-place"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("first", "size")
    triggers = (
        Keywords("spmd_axis_name"),
        Lines(rf"[^#\n]*(?:{'|'.join(map(re.escape, _SIZES))})", saying=_SIZES),
    )
    assumes = True
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call, and one for each size in a statement."""
        if site.form == "line":
            yield from self._sizes(site)
            return
        given = site.keyword("spmd_axis_name")
        match given.value if given is not None else None:
            case ast.Subscript(value=names, slice=ast.Constant(value=int()) | ast.UnaryOp() as place) as node:
                pass
            case _:
                return
        called = last_name(names)
        if not called.endswith("axis_names") or self._single(site, names):
            return
        yield site.finding(
            node,
            f"axis {site.text(place)} of the mesh, whichever that is",
            "The mapped dimension is split over the axis that stands there; with another order it is the data axis.",
            help="write the name of the axis that is meant",
            certainty=Certainty.POSSIBLE,
            form="first",
            why=f"`{site.text(names)}` are all axes of the mesh, in the order of whoever made it",
        )

    def _sizes(self, site: Site) -> Iterator[Finding]:
        """The sizes of axes that are taken by their places, and are not those of the axes that are meant."""
        if not site.wants("size"):
            return
        for size in sizes_by_place(site):
            yield site.finding(
                size.node,
                f'this is the size of the axis "{size.axis}"',
                f'`{size.name}` speaks of "{size.meant}", and the mesh has its axes in the order '
                f"{', '.join(size.axes)}: the number is that of another axis, and nothing is raised.",
                help=f'take it by its name: mesh.shape["{size.meant}"]',
                certainty=Certainty.POSSIBLE,
                form="size",
                why=f'the axis at place {size.place} of the mesh is "{size.axis}"',
            )

    def _single(self, site: Site, names: ast.expr) -> bool:
        """Whether the mesh is known to have one axis."""
        owner = names.value if isinstance(names, ast.Attribute) else None
        mesh = site.mesh_of(site.value(owner)) if owner is not None else None
        return mesh is not None and mesh.axis_names is not None and len(mesh.axis_names) == 1
