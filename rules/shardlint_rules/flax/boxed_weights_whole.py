"""SL521."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class BoxedWeightsWhole(Rule):
    """Weights leave their boxes where no mesh is in context, so the axes in the boxes have no effect.

    `nn.with_partitioning` names axes for a weight in a box, and `init` does not shard by them, also under `jax.jit` and
    in a mesh context. `unbox` does so if a mesh is in context, and otherwise gives the weights as they lie, on one
    device. Each jitted step copies them to all devices. Nothing is raised.

    ## Reports
    - proven: `nn.unbox` of variables that were made without shardings, outside of `jax.set_mesh`, whose weights a
      jitted function then takes as they are. The program enters a mesh, or places an array on one, that has the axes.
    - `on-a-way` (likely): the same on a branch that may not run, or if an option keeps its default.

    ## Write instead
    `jax.jit(model.init, out_shardings=nn.get_sharding(jax.eval_shape(model.init, key, x), mesh))`, or `nn.unbox` under
    `jax.set_mesh(mesh)`.

    ## Limits
    Not reported: logical names, and weights that are placed after they are unboxed.
    """

    code = "SL521"
    name = "boxed-weights-whole"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.7", "jax": ">=0.6.2"}
    triggers = (Violates("box.unplaced"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of weights that are used as they left their boxes."""
        said = site.violation.said
        yield site.report_violation(
            f"A weight of `{said['array']}` stays {said['where']}, though its metadata names `{said['named']}`.",
            help="make the variables with out_shardings=nn.get_sharding(...), or unbox them under jax.set_mesh(mesh)",
            why="`unbox` shards only where a mesh is in context, and a jitted function takes the weights as they are",
        )
