"""SL429."""

from __future__ import annotations

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class CollectiveInDivergentBranch(Rule):
    """A collective deadlocks: only some devices take its branch, or they leave its loop at different times.

    A collective waits for all devices along its axis. Devices that take another branch, or leave the loop earlier,
    never join. The program hangs, or ends after a timeout, without naming the line. The program works on one device,
    and on several devices that all take the same branch.

    ## Reports
    - proven: a collective in a branch of `jax.lax.cond` or `jax.lax.switch`, or in the body or condition of
      `jax.lax.while_loop`, if the predicate differs along the axis. Such a predicate is computed from shards or
      `axis_index`.

    ## Write instead
    Reduce the predicate (`jax.lax.pmax(err, axis) > tol`), or call the collective on all devices and select with
    `jnp.where`.
    """

    code = "SL429"
    name = "collective-in-divergent-branch"
    harm = Harm.CRASH
    triggers = (Violates("collective.some"),)
    fixes = "none"
    by_hand = "the code does not show which devices take part"

    @detector("violation")
    def report_collective(self, site: Site) -> Finding | None:
        """The collective that some devices may not call."""
        said = site.violation.said
        return site.report_violation(
            f"`{said['operation']}` in a branch or loop: if the predicate differs along `{said['axes']}`, "
            "this deadlocks.",
            help="reduce the predicate over the axis (`jax.lax.pmax`), or call the collective on all devices and "
            "select with `jnp.where`",
            why="the predicate depends on values that differ on each device",
        )
