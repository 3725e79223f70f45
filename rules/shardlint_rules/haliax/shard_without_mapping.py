"""SL601."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Constant
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.haliax.meshes import is_mesh

_AUTO = "haliax.auto_sharded"


class ShardWithoutMapping(Rule):
    """`hax.shard` does nothing if the axis mapping or the mesh is missing.

    The array keeps its placement: a new array stays on one device. Inside jit haliax reports nothing. Outside, it
    warns about a missing mapping.

    ## Reports
    - proven: `hax.shard`, `hax.shard_with_axis_mapping` or `hax.auto_sharded` with a mapping, if no mesh is passed
      and no `with mesh:` or `jax.set_mesh` surrounds any call path to it.
    - proven: `hax.shard` without a mapping, passed or in context.
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
    triggers = (Calls("haliax.shard", _AUTO),)
    forms = ("call",)
    closed = ("positional", "keywords")
    in_version_checks = False

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        mapping, mesh = site.argument("mapping"), site.argument("mesh")
        if mapping is not None and is_mesh(site, mapping):
            return  # SL605
        found = site.program.axis_mappings(site.file, site.call)
        mapped = _given(site, mapping) or found.always
        if not mapped:
            if found.never:
                yield self._unmapped(site)
        elif not _given(site, mesh) and site.context.never:
            yield self._no_mesh(site)

    def _unmapped(self, site: Site) -> Finding:
        inside = site.region.proven
        warning = "" if inside or site.api == _AUTO else " and warns"
        name = last_name(site.call.func)
        return site.finding(
            site.call.func,
            f"`{name}` does nothing{warning}: no axis mapping is passed or in context.",
            why=f"without a mapping {site.release('haliax')} returns the array unchanged",
            help="pass the mapping, or enter it with `with hax.axis_mapping(...)`",
            certainty=Certainty.POSSIBLE if site.api == _AUTO else None,
        )

    def _no_mesh(self, site: Site) -> Finding:
        warns = site.allows("haliax", ">=1.4") and not site.region.proven
        warning = " and at most warns" if warns else ""
        name = last_name(site.call.func)
        return site.finding(
            site.call.func,
            f"`{name}` does nothing{warning}: it has a mapping but no mesh.",
            why=f"without a mapping {site.release('haliax')} returns the array unchanged",
            help="enter the mesh around it, `with mesh:`, or pass it as mesh=",
        )


def _given(site: Site, argument: ast.expr | None) -> bool:
    return argument is not None and site.value(argument) != Constant(None)
