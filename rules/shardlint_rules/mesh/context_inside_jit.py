"""SL310."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site

_USE = "jax.sharding.use_mesh"
_GET = "jax.sharding.get_mesh"
# Asked before a mesh is set: the code knows that it may be traced.
_ASKS = ("Tracer", "trace_state", "in_jit", "is_tracing")


class ContextInsideJit(Rule):
    """The mesh is set, or the concrete one asked for, inside traced code.

    ## What it does
    Reports `jax.set_mesh` (`jax.sharding.use_mesh` on the releases that have it) in a function that is
    traced by jit, scan, shard_map and the like, also through the functions that call it and other files; and
    `jax.sharding.get_mesh` there.

    ## Why it hurts
    It raises as soon as the function is traced: `ValueError: set_mesh can only be used outside of jax.jit`.
    The mesh is part of what a jitted function is compiled for, so it must be there before. `with mesh:`
    and `jax.sharding.use_abstract_mesh` are allowed inside, and `jax.sharding.get_abstract_mesh` tells which it is.

    ## Evidence
    `jax.set_mesh` was run on jax 0.7.2 to 0.12, `use_mesh` on 0.6.2, in jit, scan,
    shard_map, eval_shape, grad and vmap; `get_mesh` on 0.8.3, 0.10.2 and 0.12, in jit, eval_shape, grad and vmap.
    Code that may also run untraced, or asks first, is left alone.
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
        region = site.region
        if not region.proven:
            return
        if site.api == _GET:
            if site.allows("jax", ">=0.8.1"):
                yield self._asked(site)
            return
        called = f"{site.api.rpartition('.')[2]} can only be used outside of jit"
        if site.api == _USE and site.allows("jax", ">=0.7.1"):
            called = "use_mesh, which is jax.set_mesh now, can only be used outside of jit"
        yield site.finding(
            site.call,
            f"On {site.release('jax')} this raises ValueError when it is traced: {called}.",
            via=region,
            help="set the mesh where the jitted function is called, and drop it here",
        )

    def _asked(self, site: Site) -> Finding:
        return site.finding(
            site.call,
            f"On {site.release('jax')} this raises ValueError when it is traced: get_mesh can only be used "
            f"outside of jit.",
            via=site.region,
            help="ask jax.sharding.get_abstract_mesh(), or pass the mesh",
        )


def _asks_first(site: Site) -> bool:
    inner: ast.AST = site.call
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.Try) and inner in outer.body:
            return True
        if isinstance(outer, ast.If | ast.IfExp) and any(word in site.text(outer.test) for word in _ASKS):
            return True
        inner = outer
    return False
