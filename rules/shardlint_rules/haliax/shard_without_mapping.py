"""SL601."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name


class ShardWithoutMapping(Rule):
    """`hax.shard` does nothing if the axis mapping or the mesh is missing.

    The array keeps its placement: a new array stays on one device. Inside jit haliax reports nothing. Outside, it
    warns about a missing mapping.

    ## Reports
    - proven: `hax.shard`, `hax.shard_with_axis_mapping` or `hax.auto_sharded` with a mapping, if no mesh is passed
      and no `with mesh:` or `jax.set_mesh` surrounds a call path to it.
    - proven: `hax.shard` without a mapping, passed or in context.
    - proven: a call of `hax.named_jit` with a mapping for its results or arguments, without a mesh. It raises.
    - possible: `hax.auto_sharded` without a mapping: a library may leave the mapping to its callers.

    ## Write instead
    Without a context: `hax.shard(x, {"batch": "data", "embed": "model"}, mesh)`.

    ## Limits
    A mesh in the place of the mapping, `hax.shard(x, mesh)`, is SL605.
    """

    code = "SL601"
    name = "hax-shard-without-mapping"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"haliax": ">=1.3"}
    likely = ("conditional",)
    assumptions: ClassVar[Mapping[str, str]] = {"conditional": "The branch runs, and options keep their defaults."}
    triggers = (Violates("mapping.none", "mapping.no-mesh", "mapping.meshless"),)
    in_version_checks = False

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of a call."""
        found, name = site.violation, last_name(site.syntax)
        automatic = found.said["operation"] == "auto_sharded"
        if found.kind == "mapping.none":
            warning = "" if found.said["traced"] or automatic else " and warns"
            yield site.report_violation(
                f"`{name}` does nothing{warning}: no axis mapping is passed or in context.",
                why=f"without a mapping {site.release('haliax')} returns the array unchanged",
                help="pass the mapping, or enter it with `with hax.axis_mapping(...)`",
                form="automatic" if automatic else "",
            )
        elif found.kind == "mapping.no-mesh":
            warns = site.allows("haliax", ">=1.4") and not found.said["traced"]
            yield site.report_violation(
                f"`{name}` does nothing{' and at most warns' if warns else ''}: it has a mapping but no mesh.",
                why=f"without a mesh {site.release('haliax')} returns the array unchanged",
                help="enter the mesh around the call, `with mesh:`, or pass `mesh=`",
            )
        else:
            yield site.report_violation(
                "This raises ValueError: `named_jit` has a mapping but no mesh.",
                why=f"{site.release('haliax')} places arguments and results by the mapping over the mesh in context",
                help="enter the mesh around the call, `with mesh:`",
                harm=Harm.CRASH,
            )
