"""SL521."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class BoxedWeightsWhole(Rule):
    """Weights are unboxed where no mesh is in context, so the axes of `nn.with_partitioning` have no effect.

    `nn.with_partitioning` wraps a weight in an `nn.Partitioned` box with axis names. `init` does not shard by them, not
    even under `jax.jit` in a mesh context. `unbox` shards by them only if a mesh is in context. Otherwise the weights
    stay on one device, and each jitted step copies them to all devices. Nothing is raised.

    ## Reports
    - proven: `nn.unbox` outside of `jax.set_mesh`, if the variables were created without shardings and the weights are
      passed to a jitted function unchanged. The program enters a mesh with these axes in other code, or places an array
      on such a mesh.

    ## Write instead
    - Shard in `init`: `jax.jit(model.init, out_shardings=nn.get_sharding(jax.eval_shape(model.init, key, x), mesh))`.
    - Or call both `init` and `nn.unbox` under `jax.set_mesh(mesh)`, with a mesh of Auto axes. Over Explicit axes
      `unbox` raises AssertionError. If only `unbox` is under `jax.set_mesh`, it raises TypeError: the weights are on
      one device.

    ## Limits
    Not reported: logical names, and weights that are placed after they are unboxed.
    """

    code = "SL521"
    name = "boxed-weights-whole"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.7", "jax": ">=0.6.2"}
    triggers = (Violates("box.unplaced"),)
    fixes = "none"

    @detector("violation")
    def report_weights(self, site: Site) -> Finding | None:
        """The weights that are used as they left their boxes."""
        said = site.violation.said
        return site.report_violation(
            f"A weight of `{said['array']}` stays {said['where']}, though its metadata names `{said['named']}`.",
            help="create the variables with `jax.jit(init, out_shardings=nn.get_sharding(...))`, "
            "or create and unbox them under `jax.set_mesh(mesh)` with Auto axes",
            why="`unbox` shards only where a mesh is in context, and the weights are passed to a jitted function "
            "unchanged",
        )
