"""SL351."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts.made_meshes import files_making_meshes, meshes_made_in
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint_rules.mesh.spec_arguments import SpecArgument, may_axis_be_bound, named_axes, node_of_axis

_SPEC = "jax.sharding.PartitionSpec"
# What leaves axes out that a mesh does not have, or asks for them; and meshes that come from libraries.
_ASKS = (
    r"(?:)in(?<!\win)\s+(?:\w+(?:\(\))?\.)*(?:axis_names|axis_sizes|shape)\b",
    ".shape.get(",
    r"(?:)in(?<!\win)\s+\w*(?:mesh_axes|axis_names|mesh_shape)\b",
    "haliax",
    "levanter",
)
# Names for the dimensions of arrays, which rules map to mesh axes.
_LOGICAL = (
    *(rf"(?:){word}(?<![A-Za-z0-9]{word})(?i:ly)?(?:\b|_)" for word in ("logical", "Logical", "LOGICAL")),
    r"(?:)Logical(?<!\wLogical)[A-Z(:.]",
    "axis_rules",
)
_MAPS = r"(?:[pv]map|shard_map)"
_NEAR = 0.7


class AxisOfNoMesh(Rule):
    """A spec names a mesh axis that no mesh of the program has.

    Making a sharding from it raises `ValueError: Resource axis: expert of PartitionSpec(...) is not found in mesh`. The
    error can come late, because often only one configuration runs this code.

    ## Reports
    - `axis-of-no-mesh` (likely): a spec with an axis that no mesh of the program has, if the code shows the axes of all
      meshes. This spec, or another spec in the same table, also names an axis of a mesh.

    ## Write instead
    Write an axis of the mesh, or None for a replicated dimension.

    ## Limits
    Not reported: programs that use logical names or test whether a mesh has an axis, test files, and axes of `pmap` and
    `vmap`. SL301 reports an axis that the mesh of the same call lacks. SL340 reports an axis that the setting
    `axis-names` does not list.
    """

    code = "SL351"
    name = "axis-of-no-mesh"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("axis-of-no-mesh",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "axis-of-no-mesh": "The spec is used with one of the meshes of the program."
    }
    behind = ("SL301", "SL340", "SL316")
    triggers = (Calls(_SPEC),)
    in_tests = False
    fixes = "none"

    @detector("call", finds="axis-of-no-mesh")
    def find_axes(self, site: Site) -> Iterator[Finding]:
        """The axes of a spec that are in no mesh."""
        spec = site.spec_of(site.value(site.call))
        if spec is None or site.program.own.axes:
            return
        axes = {axis for _, axis in named_axes(spec) if axis.isidentifier()}
        if not axes:
            return
        made = site.program.once(site.file, "SL351", lambda: _axes_of_meshes(site))
        if not made or axes <= made:
            return
        if not axes & made and not _names_mesh_axes(site, made):
            return
        listed = ", ".join(sorted(made))
        for entry, axis in named_axes(spec):
            if axis not in made and axis.isidentifier() and not may_axis_be_bound(site, axis, _MAPS):
                near = difflib.get_close_matches(axis, sorted(made), n=1, cutoff=_NEAR)
                yield site.finding(
                    node_of_axis(site, SpecArgument(spec, site.call, True), entry, axis),
                    f'A sharding with this spec raises ValueError: no mesh of the program has an axis "{axis}".',
                    label=f'did you mean "{near[0]}"?' if near else "",
                    help=f"write one of {listed}, or None for a replicated dimension",
                    why=f"the meshes that the program makes have the axes {listed}; checked on {site.release('jax')}",
                )


def _axes_of_meshes(site: Site) -> frozenset[str]:
    """The axes of all meshes that run with the file; none where those of one are not known, or axes are asked for."""
    if site.program.project.is_text_in_files(site.file.path, *_LOGICAL, *_ASKS):
        return frozenset()
    axes: set[str] = set()
    for file in files_making_meshes(site.program, site.file.path, tests=False):
        if file is None:
            return frozenset()
        for mesh in meshes_made_in(site.program, file):
            if mesh is None or mesh.axis_names is None:
                return frozenset()
            axes.update(mesh.axis_names)
    return frozenset(axes)


def _outermost_table(site: Site) -> ast.AST | None:
    """The dictionary or list of pairs around a spec, the outermost one."""
    found: ast.AST | None = None
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.stmt):
            break
        if isinstance(outer, ast.Dict) or (isinstance(outer, ast.Tuple | ast.List) and len(outer.elts) > 1):
            found = outer
    return found


def _names_mesh_axes(site: Site, made: frozenset[str]) -> bool:
    """Return whether other specs of the table name axes of the meshes."""
    table = _outermost_table(site)
    text = site.file.source_text(table) if table is not None else ""
    own = site.text(site.call)
    quoted = compile_lazily(r"""["'](\w+)["']""")
    return any(found[1] in made for found in quoted.finditer(text.replace(own, "")))
