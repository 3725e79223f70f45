"""SL601."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.set_mesh.obstacles import haliax_reads_old_mesh
from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name


class ShardWithoutMapping(Rule):
    """`hax.shard` does nothing if the axis mapping or the mesh is missing.

    The array keeps its placement: a new array stays on one device. Outside jit haliax warns about a missing mapping,
    and recent releases also warn about a missing mesh. Inside jit there is no warning.

    ## Reports
    - proven: `hax.shard`, `hax.shard_with_axis_mapping` or `hax.auto_sharded` with a mapping, if no mesh is passed, and
      no caller enters `with mesh:` or `jax.set_mesh`.
    - proven: `hax.shard`, if no mapping is passed or in context.
    - proven: a call of a `hax.named_jit` function that has a mapping for results or arguments, without a mesh. The call
      raises ValueError.
    - possible: `hax.auto_sharded` without a mapping. The callers of a library may enter the mapping.

    ## Write instead
    Enter the mapping and the mesh as contexts, or pass both: `hax.shard(x, {"batch": "data", "embed": "model"}, mesh)`.

    ## Limits
    Not reported: a mesh in place of the mapping, such as `hax.shard(x, mesh)`. SL605 reports it.
    """

    code = "SL601"
    name = "hax-shard-without-mapping"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    triggers = (Violates("mapping.none", "mapping.no-mesh", "mapping.meshless"),)
    in_version_checks = False

    @detector("violation", of="mapping.none")
    def report_without_mapping(self, site: Site) -> Finding:
        """A call without a mapping."""
        said = site.violation.said
        automatic = said["operation"] == "auto_sharded"
        warning = "" if said["traced"] or automatic else " (haliax warns)"
        return site.report_violation(
            f"`{last_name(site.syntax)}` has no effect{warning}: no axis mapping is passed or in context.",
            why=f"without a mapping {site.release('haliax')} returns the array unchanged",
            help="write `with hax.axis_mapping(mapping):` around the call, or pass the mapping as the second argument",
            form="automatic" if automatic else "",
        )

    @detector("violation", of="mapping.no-mesh")
    def report_without_mesh(self, site: Site) -> Finding:
        """A call with a mapping and without a mesh."""
        context = _mesh_context_text(site)
        warns = site.allows("haliax", ">=1.4") and not site.violation.said["traced"]
        return site.report_violation(
            f"`{last_name(site.syntax)}` has no effect{' (haliax may warn)' if warns else ''}: "
            "it has a mapping but no mesh.",
            why=f"without a mesh {site.release('haliax')} returns the array unchanged",
            help=f"write `{context}` around the call, or pass `mesh=`",
        )

    @detector("violation", of="mapping.meshless")
    def report_jit_without_mesh(self, site: Site) -> Finding:
        """A `named_jit` with a mapping and without a mesh."""
        context = _mesh_context_text(site)
        return site.report_violation(
            "This raises ValueError: `named_jit` has a mapping but no mesh.",
            why=f"{site.release('haliax')} shards arguments and results by the mapping over the mesh in context",
            help=f"write `{context}` around the call",
            harm=Harm.CRASH,
        )


def _mesh_context_text(site: Site) -> str:
    """The mesh context that haliax reads on the project's releases."""
    is_old = haliax_reads_old_mesh(site) or not site.allows("jax", ">=0.7.1")
    return "with mesh:" if is_old else "with jax.set_mesh(mesh):"
