"""SL337."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.rules_api.rule import Certainty, Finding, Harm, Keywords, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name


class AxisByPlace(Rule):
    """A vmap is mapped to the mesh axis that happens to stand at some place.

    ## What it does
    Reports `spmd_axis_name=mesh.axis_names[0]`, where the axis is taken by its place among all axes of the mesh.

    ## Why it hurts
    Which axis is first is up to whoever makes the mesh. With another order the mapped dimension (stages of a pipeline,
    experts) is split over the data axis, and nothing is raised.

    ## Use instead
    The name of the axis, or the spec of what is mapped: `spmd_axis_name=stage_spec[0]`.

    ## Evidence
    The proof shows the stages split over the data axis. Left alone: meshes of one axis, and names from a spec.
    """

    code = "SL337"
    name = "mesh-axis-by-place"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("first",)
    triggers = (Keywords("spmd_axis_name"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
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

    def _single(self, site: Site, names: ast.expr) -> bool:
        """Whether the mesh is known to have one axis."""
        owner = names.value if isinstance(names, ast.Attribute) else None
        mesh = site.mesh_of(site.value(owner)) if owner is not None else None
        return mesh is not None and mesh.axis_names is not None and len(mesh.axis_names) == 1
