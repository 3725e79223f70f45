"""SL421."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class BiasBeforeSum(Rule):
    """A replicated term, such as a bias, is added on every device before `psum` sums over the devices.

    If a matrix product is sharded over its inner dimension, each device holds a partial sum and the full bias. Eight
    devices add the bias eight times. Nothing raises. A model that was trained on one device gives other results on
    several.

    ## Reports
    - `replicated-term` (likely): `psum` or `psum_scatter` of a sum with a replicated term: a bias, a residual or a
      penalty on the weights. `in_specs` of a `shard_map` or `in_axes=None` of a `pmap` leave the term replicated.

    ## Write instead
    Add the term after the sum: `jax.lax.psum(x @ w, axis) + bias`.

    ## Limits
    Not reported: terms that are divided, masked or selected by `axis_index`, and `pmean`.
    """

    code = "SL421"
    name = "bias-before-sum"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("replicated-term",)
    assumptions: ClassVar[Mapping[str, str]] = {"replicated-term": "The sum is meant to count the term once."}
    triggers = (Violates("term.counted", is_conditional=False),)
    fixes = "none"

    @detector("violation", finds="replicated-term")
    def report_addition(self, site: Site) -> Finding | None:
        """The addition of a replicated term."""
        return site.report_violation(
            "A replicated term counts once per device: it is added before `psum` over "
            f"`{site.violation.said['axes']}`.",
            help="call `psum` on the sharded term only, and add the replicated term to its result",
            why="the term is replicated by its in spec or by a collective",
        )
