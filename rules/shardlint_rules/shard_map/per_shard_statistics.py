"""SL409."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Keywords, Methods, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._batch_stats import find_unsynced_statistics


class PerShardStatistics(Rule):
    """A softmax, norm, sort or shift runs along a dimension that is sharded over the devices.

    Each device normalizes, sorts or shifts only its shard of the dimension. Shapes are right and nothing raises.

    ## Reports
    A dimension counts as sharded if `in_specs` shard it, or if a matrix product takes it from such an array.

    - proven: `softmax`, `logsumexp`, `cumsum`, `sort`, `argmax`, `top_k` or a similar function along a sharded
      dimension in a `shard_map` body, if no collective in the body names its mesh axis.
    - proven: a mean, variance or median along the first dimension of a shard, if `in_specs` shard a stack with one
      entry per device. That dimension has size 1.
    - `reduced-later` (likely): a `softmax` along a sharded dimension, if `psum` over the axis comes only after it.
    - `per-device-maximum` (likely): `psum` of `exp(x - m)`, where `m` is the maximum of one shard.
    - `features` (likely): a mean, sum or variance along a sharded last dimension, if the result is applied to the same
      dimension (layer norm).
    - `norm` (likely): a division by the norm or standard deviation of one shard.
    - `norm-after-scatter` (likely): the result of `psum_scatter`, scaled by the norm of one shard.
    - `shifted` (likely): `roll`, `flip`, `diff`, `x[:, 1:]` or a convolution along a sharded dimension, if the body
      does not exchange neighbors over the axis.
    - `batch-stats` (likely): `batch_stats` that a pmapped step updates on each device, if nothing averages them and one
      device's copy is saved or evaluated.
    - `normalised` (possible): a mean, sum or maximum along a sharded dimension other than the last, if the result is
      applied to the same dimension.

    ## Write instead
    - Write None for the dimension in `in_specs` and `out_specs`.
    - Or reduce over the axis. For a softmax this is `m = jax.lax.pmax(jax.lax.stop_gradient(m), axis)` for the maximum,
      and `jax.lax.psum` for the sum. Without `stop_gradient`, `jax.grad` raises: `pmax` has no derivative.

    ## Limits
    Not reported: bodies with a collective over the axis, except for the likely forms. A negative dimension (`axis=-1`)
    is reported only if the code shows the rank of the array.
    """

    code = "SL409"
    name = "per-shard-statistics"
    harm = Harm.SILENT
    likely = (
        "reduced-later", "per-device-maximum", "features", "norm", "norm-after-scatter", "batch-stats", "shifted"
    )  # fmt: skip
    assumptions: ClassVar[Mapping[str, str]] = {
        "reduced-later": "The sums over the axis do not renormalize the softmax.",
        "per-device-maximum": "The shards have different maxima.",
        "features": "The statistic is meant for the unsharded dimension.",
        "norm": "The norm is meant for the unsharded dimension.",
        "norm-after-scatter": "The norm is meant for all gradients.",
        "shifted": "The array is longer than one shard.",
    }
    assumes = True
    triggers = (
        Violates("statistics.single", "piece.along", "piece.shifted", "piece.norm", "reducer.own-maximum"),
        Keywords("mutable", file_says=("batch_stats",)),
        Methods("apply", file_says=("pmap",)),
    )
    fixes = "none"

    @detector("violation", of="piece.along")
    def report_function(self, site: Site) -> Finding:
        """A function along a dimension of which each device has a piece."""
        said, axes = site.violation.said, site.violation.quoted_axes
        if said["combined"]:
            form = "features" if said["last"] else "normalised"
            evidence = "the result is combined with the sharded dimension again"
        elif "later" in said:
            form, evidence = "reduced-later", "psum runs after the softmax, and no pmax over the axis"
        else:
            form, evidence = "", f"nothing in the body communicates over {axes}"
        return site.report_violation(
            f"Each device computes `{said['operation']}` of its shard only; the dimension is sharded over {axes}.",
            help="write None for this dimension in `in_specs`, or reduce over the axis",
            form=form,
            why=evidence,
        )

    @detector("violation", of="piece.norm")
    def report_norm(self, site: Site) -> Finding:
        """A piece that is divided by its own norm or spread."""
        axes, first = site.violation.quoted_axes, site.violation.said["axes"].partition(",")[0]
        if site.violation.said["operation"] == "scattered":
            return site.report_violation(
                f"Clipping is too weak: each device uses the norm of its shard over {axes}, not the global norm.",
                help=f'write `jnp.sqrt(jax.lax.psum(jnp.sum(g * g), "{first}"))` for the norm',
                form="norm-after-scatter",
                why="psum_scatter left a shard on each device, and nothing reduces the norm",
            )
        return site.report_violation(
            f"Each device normalizes with the norm or standard deviation of one shard along {axes}.",
            help="write None for this dimension in `in_specs`, or reduce over the axis",
            form="norm",
            why="the result scales the sharded dimension again",
        )

    @detector("violation", of="piece.shifted", finds="shifted")
    def report_shift(self, site: Site) -> Finding:
        """Neighbors along a sharded dimension, of which those at a border are on another device."""
        axes = site.violation.quoted_axes
        return site.report_violation(
            f"Entries at shard borders are wrong: each device shifts its shard along {axes}.",
            help=f"exchange the borders with `jax.lax.ppermute` over {axes}, or shift outside the `shard_map`",
            why="in_specs shard this dimension, and nothing in the body exchanges neighbors",
        )

    @detector("violation", of="statistics.single")
    def report_single_entry(self, site: Site) -> Finding:
        """A statistic along a dimension of which each device has one entry."""
        said = site.violation.said
        return site.finding(
            site.syntax,
            f"`{said['operation']}` is over one element: each device gets an array with a first dimension of size 1.",
            help="write `x = x[0]` first in the body, which removes this dimension, and return `result[None]`",
            certainty=Certainty.PROVEN,
            why=f"line {said['line']} reduces `{said['shape']}` along this dimension, which `pmap` removes "
            "and shard_map keeps",
        )

    @detector("keyword", finds="batch-stats")
    def report_running(self, site: Site) -> Finding | None:
        """Running statistics of a linen BatchNorm, of which each device of a pmap keeps its own."""
        kept = find_unsynced_statistics(site)
        return _report_unsynced_statistics(site, kept, "batch_stats", "axis_name") if kept is not None else None

    @detector("method", finds="batch-stats")
    def report_running_of_haiku(self, site: Site) -> Finding | None:
        """The same of Haiku."""
        kept = find_unsynced_statistics(site)
        return (
            _report_unsynced_statistics(site, kept, site.text(kept), "cross_replica_axis")
            if kept is not None
            else None
        )

    @detector("violation", of="reducer.own-maximum", finds="per-device-maximum")
    def report_own_maximum(self, site: Site) -> Finding:
        """A sum over the devices of exponentials that each device took by a maximum of its own."""
        return site.report_violation(
            "The softmax denominator is wrong: this psum adds exponentials that subtract different maxima.",
            help="write `m = jax.lax.pmax(jax.lax.stop_gradient(m), axis)` before the exponential: "
            "`pmax` has no derivative",
            why="each device subtracts the maximum of its shard",
        )


def _report_unsynced_statistics(site: Site, node: ast.AST, what: str, parameter: str) -> Finding:
    """The finding of statistics that each device keeps for itself."""
    return site.finding(
        node,
        f"`{what}` differs on each device; only the first device's batch statistics are saved or evaluated.",
        label="per-device batch statistics",
        help=f"write `jax.lax.pmean({what}, axis)` in the step, or pass `{parameter}` to BatchNorm",
        why="the step is pmapped, nothing averages the statistics, and the first device's state is read",
    )
