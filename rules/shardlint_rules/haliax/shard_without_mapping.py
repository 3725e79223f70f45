"""SL601."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Constant
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.haliax.meshes import is_mesh

_AUTO = "haliax.auto_sharded"


class ShardWithoutMapping(Rule):
    """`hax.shard` finds no axis mapping, or no mesh, and does nothing.

    ## What it does
    Reports `hax.shard`, `hax.shard_with_axis_mapping` and `hax.auto_sharded`

    - that have a mapping, given or by `hax.axis_mapping`, and surely no mesh: none is given, and neither `with mesh:`
      nor `jax.set_mesh` is around them, on any way that leads there;
    - `hax.shard` that surely has no mapping. For `auto_sharded`, which a library may call for whoever has one, this
      is possible only.

    A mesh where the mapping belongs, `hax.shard(x, mesh)`, is SL605.

    ## Why it hurts
    The array stays where it is, whole on one device. Inside jit nothing is said at all. Outside, `hax.shard` warns that
    it has no mapping; that it has no mesh, only late development releases of haliax 1.4 tell.

    ## Use instead
    or, without any context, `hax.shard(x, {"batch": "data", "embed": "model"}, mesh)`.

    ## Evidence
    Run with haliax 1.3 on jax 0.4.30, and with 1.4.dev404 and
    1.4.dev453 on jax 0.6.2 and 0.12.
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
        told = "" if inside or site.api == _AUTO else ", with a RuntimeWarning"
        return site.finding(
            site.call.func,
            f"On {site.release('haliax')} this does nothing{told}: the array stays where it is.",
            label="no axis mapping is given, and none is around it",
            help="give the mapping, or enter it by `with hax.axis_mapping(...)`",
            certainty=Certainty.POSSIBLE if site.api == _AUTO else None,
        )

    def _no_mesh(self, site: Site) -> Finding:
        warns = site.allows("haliax", ">=1.4") and not site.region.proven
        told = ", and at most warns" if warns else ", and nothing says so"
        return site.finding(
            site.call.func,
            f"On {site.release('haliax')} this does nothing{told}: the array stays where it is.",
            label="it has a mapping and no mesh",
            help="enter the mesh around it, `with mesh:`, or give it as mesh=",
        )


def _given(site: Site, argument: ast.expr | None) -> bool:
    return argument is not None and site.value(argument) != Constant(None)
