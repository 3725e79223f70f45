"""SL201."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.program.values import Api, Constant, Made, Unknown, options
from shardlint.rule import Calls, Certainty, Finding, Harm, Rule, Safety
from shardlint.site import Site

# Moving between memories is what device_put in jit is for; none of these place an array on a mesh.
_MEMORY = ("memory_kind", "memory.Space", "TransferToMemoryKind", "pinned_host", "unpinned_host", "Space.")
_HOST_METHODS = ("load_weights", "load", "__init__", "setup", "prepare", "initialize", "post_init", "__post_init__")


class DevicePutInJit(Rule):
    """`device_put` with a sharding inside traced code places nothing.

    ## What it does
    Reports `jax.device_put(x, sharding)` in code that is traced by jit, filter_jit, scan, shard_map and the like, also
    when a traced function reaches it through other functions and files.

    ## Why it hurts
    Inside a trace there is no array to move. On a mesh with Auto axes the call leaves no operation in the compiled
    program: the value keeps the sharding it came with, and what came uncommitted ends up replicated on every device.
    Nothing is raised, and the numbers are right.

    ## Example
    ```python
    @jax.jit
    def step(x):
        x = jax.device_put(x, NamedSharding(mesh, P("data")))
        return x * 2
    ```

    ## Use instead
    ```python
    @jax.jit
    def step(x):
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))
        return x * 2
    ```
    In Equinox code use `eqx.filter_shard`, which also takes Modules.

    ## Fix safety
    Unsafe: the constraint takes effect, so the compiled program changes its memory and communication.

    ## Evidence
    Rows B1, B2, B4, B5 and B9 of the experiments, run on jax 0.4.38 to 0.12. Under `jax.set_mesh` with Explicit axes
    `device_put` does reshard, and memory kinds are always honoured: both are left alone.
    """

    code = "SL201"
    name = "device-put-in-jit"
    harm = Harm.SILENT
    wakes = (Calls("jax.device_put"),)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a placement call in traced code."""
        target = site.argument("device")
        if target is None or site.form != "call" or site.expected_to_fail:
            return
        certainty = self._certainty(site)
        if certainty is None or not self._places(site, target) or self._explicit(site, target) or _guards_trace(site):
            return
        yield site.finding(
            site.call.func,
            site.region.describe(site.file),
            f"On {site.on('jax')} this places nothing: {site.text(site.call.args[0]) if site.call.args else 'the value'} "
            "stays as it came, replicated on all devices if it was fresh.",
            help="constrain it with jax.lax.with_sharding_constraint, or place it before the traced function is called",
            fix=self._fix(site, target),
            certainty=certainty,
        )

    def _certainty(self, site: Site) -> Certainty | None:
        if site.region.proven:
            return Certainty.PROVEN
        return Certainty.LIKELY if site.region.traced == "sometimes" else None

    def _places(self, site: Site, target: ast.expr) -> bool:
        """Whether the target is surely a sharding (not a memory, a device, or nothing)."""
        if any(word in site.text(target) for word in _MEMORY):
            return False
        found = options(site.value(target))
        for option in found:
            if option == Constant(None) or isinstance(option, Unknown | Api):
                return False
            if isinstance(option, Made) and option.call is not None and "memory_kind" in option.call.keywords:
                return False
        return all(isinstance(option, Made) and option.api in _SHARDINGS for option in found)

    def _explicit(self, site: Site, target: ast.expr) -> bool:
        """Whether the mesh may have Explicit axes, where device_put in jit does reshard."""
        for option in options(site.value(target)):
            parts = site.sharding_parts(option)
            if parts is None:
                continue
            mesh = site.mesh_of(parts[0])
            if mesh is None:
                continue
            explicit_default = mesh.api == "jax.make_mesh" and site.runs("jax", ">=0.9")
            if mesh.axis_types in ("explicit", "mixed", "unknown") or (mesh.axis_types == "default" and explicit_default):
                return True
        return any(
            context.mesh is None and context.kind == "set_mesh" for context in site.context.contexts
        )

    def _fix(self, site: Site, target: ast.expr):  # type: ignore[no-untyped-def]
        return None


_SHARDINGS = ("jax.sharding.NamedSharding", "jax.sharding.PositionalSharding", "jax.sharding.GSPMDSharding")


def _guards_trace(site: Site) -> bool:
    """`if isinstance(x, Tracer)` and the like: the code knows whether it is traced."""
    words = ("Tracer", "is_concrete", "trace_state_clean", "is_in_jit", "under_jit", "eval_context")
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.If | ast.IfExp) and any(word in site.text(outer.test) for word in words):
            return True
    return False
