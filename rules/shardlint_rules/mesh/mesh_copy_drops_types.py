"""SL314."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes


class MeshCopyDropsTypes(Rule):
    """A mesh built from the devices and names of another mesh loses its axis types.

    Arrays on the copy have no sharding in their type: `Mesh` makes Auto axes by default. The compiler chooses their
    sharding, and nothing is raised. A computation with arrays of both meshes raises ValueError.

    ## Reports
    - proven: `Mesh(other.devices, other.axis_names)`, also with the devices rearranged, if `other` has Explicit axes
      or axes of several types.

    ## Fix
    Adds `axis_types=other.axis_types`.
    """

    code = "SL314"
    name = "mesh-copy-drops-types"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.2"}
    triggers = (Calls("jax.sharding.Mesh", file_says=("axis_names",)),)
    closed = ("positional", "keywords")
    in_version_checks = False
    fixes = "safe"

    @detector("call")
    def report_copy(self, site: Site) -> Finding | None:
        """A mesh made of the devices and names of another."""
        if site.argument("axis_types") is not None:
            return None
        names, devices = site.argument("axis_names"), site.argument("devices")
        if devices is None or not isinstance(names, ast.Attribute) or names.attr != "axis_names":
            return None
        other = site.text(names.value)
        if not any(
            isinstance(part, ast.Attribute) and part.attr == "devices" and site.text(part.value) == other
            for part in walk_nodes(devices)
        ):
            return None
        meshes = [site.mesh_of(option) for option in options(site.value(names.value))]
        if any(mesh is None or mesh.axis_types == "unknown" for mesh in meshes):
            return None
        if any(mesh is not None and site.shardings.axis_types(mesh) == "auto" for mesh in meshes):
            return None
        return site.finding(
            site.call,
            f"Arrays on this copy lose the sharding in their type: the copy has Auto axes, unlike `{other}`.",
            label="no axis_types",
            help=f"add `axis_types={other}.axis_types`",
            fix=self._write_fix(site, other),
            why=f"on {site.release('jax')} Mesh makes Auto axes by default, and nothing is raised",
        )

    def _write_fix(self, site: Site, other: str) -> Fix:
        from shardlint.rules_api.cst import append_argument

        call = append_argument(site.node, "axis_types", f"{other}.axis_types")
        return site.fix(Safety.SAFE, f"add axis_types={other}.axis_types", [site.replace(site.call, call)])
