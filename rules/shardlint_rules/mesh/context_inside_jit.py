"""SL310."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax.enclosing import caught

_USE = "jax.sharding.use_mesh"
_GET = "jax.sharding.get_mesh"
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
    triggers = (Calls("jax.set_mesh", _USE, _GET),)
    forms = ("call",)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a mesh that is set in code that is always traced."""
        if _asks_first(site):
            return
        entered = isinstance(site.file.parent(site.call), ast.withitem)
        if site.api == _USE and not entered:
            return  # it does nothing until it is entered
        if site.written == "jax.set_mesh" and site.allows("jax", "<0.7.1"):
            return  # the name is not there yet: SL901
        if not site.region.proven:
            return
        if site.api == _GET:
            if site.allows("jax", ">=0.8.1"):
                yield self._finding(site, "write `jax.sharding.get_abstract_mesh()`, or pass the mesh")
            return
        yield self._finding(site, "remove this call, and set the mesh where the jitted function is called")

    def _finding(self, site: Site, help: str) -> Finding:
        name = site.api.rpartition(".")[2]
        renamed = name == "use_mesh" and site.allows("jax", ">=0.7.1")
        return site.finding(
            site.call,
            f"Tracing this raises ValueError: on {site.release('jax')} `{name}` can only be used outside of jit.",
            via=site.region,
            why="use_mesh is jax.set_mesh on this release" if renamed else "",
            help=help,
        )


def _asks_first(site: Site) -> bool:
    branches = (one for one in site.file.ancestors(site.call) if isinstance(one, ast.If | ast.IfExp))
    asked = any(word in site.text(one.test) for one in branches for word in _ASKS)
    return asked or caught(site.file, site.call)
