"""SL310."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax.enclosing import is_exception_caught

_SET_OUTSIDE = "remove this call, and write `with jax.set_mesh(mesh):` around the call of the jitted function"
# Asked before a mesh is set: the code knows that it may be traced.
_ASKS = ("Tracer", "trace_state", "in_jit", "is_tracing")


class ContextInsideJit(Rule):
    """`jax.set_mesh` or `jax.sharding.get_mesh` inside traced code raises.

    jax compiles a jitted function for one mesh, so the mesh must be set before the call. `with mesh:`,
    `jax.sharding.use_abstract_mesh` and `jax.sharding.get_abstract_mesh` are allowed in traced code.

    ## Reports
    - proven: `jax.set_mesh` in a function that jit, scan, shard_map or a similar function traces, or that a traced
      function calls. Also `with jax.sharding.use_mesh(...)` on the releases that have it.
    - proven: `jax.sharding.get_mesh` in a traced function, from jax 0.8.1 on.

    ## Limits
    Not reported: code that may also run untraced, and code that first checks for a tracer.
    """

    code = "SL310"
    name = "context-inside-jit"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.6.2"}
    triggers = (Calls("jax.set_mesh", "jax.sharding.use_mesh", "jax.sharding.get_mesh"),)

    @detector("call", of="jax.set_mesh")
    def report_set_mesh(self, site: Site) -> Finding | None:
        """A mesh that is set in code that is always traced."""
        if site.written == "jax.set_mesh" and site.allows("jax", "<0.7.1"):
            return None  # the name is not there yet: SL901
        return _make_finding(site, _SET_OUTSIDE)

    @detector("call", of="jax.sharding.use_mesh")
    def report_use_mesh(self, site: Site) -> Finding | None:
        """A mesh that is entered in code that is always traced."""
        if not isinstance(site.file.parent(site.call), ast.withitem):
            return None  # it does nothing until it is entered
        renamed = site.allows("jax", ">=0.7.1")
        return _make_finding(site, _SET_OUTSIDE, "use_mesh is jax.set_mesh on this release" if renamed else "")

    @detector("call", of="jax.sharding.get_mesh")
    def report_get_mesh(self, site: Site) -> Finding | None:
        """A mesh that is read in code that is always traced."""
        if not site.allows("jax", ">=0.8.1"):
            return None
        return _make_finding(site, "write `jax.sharding.get_abstract_mesh()`, or pass the mesh")


def _make_finding(site: Site, help: str, why: str = "") -> Finding | None:
    if _checks_context_first(site) or not site.region.is_proven:
        return None
    return site.finding(
        site.call,
        f"Tracing this raises ValueError: on {site.release('jax')} `{site.short_name}` can only be used "
        "outside of jit.",
        via=site.region,
        why=why,
        help=help,
    )


def _checks_context_first(site: Site) -> bool:
    branches = (one for one in site.file.ancestors(site.call) if isinstance(one, ast.If | ast.IfExp))
    asked = any(word in site.text(one.test) for one in branches for word in _ASKS)
    return asked or is_exception_caught(site.file, site.call)
