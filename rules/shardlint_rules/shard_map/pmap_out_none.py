"""SL414."""

from __future__ import annotations

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class PmapOutNone(Rule):
    """`pmap` with `out_axes=None` returns one device's value of a result that differs on each device.

    `None` promises that all devices return the same value. jax returns the first device's value without a check, so a
    loss or metric covers one shard only.

    ## Reports
    - proven: a result with `None` in `out_axes`, if it varies over the devices and no collective reduces it.

    ## Limits
    Not reported: results of replicated state (`replicate`), and results of code that shardlint cannot read.
    """

    code = "SL414"
    name = "pmap-out-none"
    harm = Harm.SILENT
    triggers = (Violates("result.first"),)
    fixes = "none"

    @detector("violation")
    def report_result(self, site: Site) -> Finding | None:
        """The result of which one device's value is kept."""
        name = f"`{site.violation.said['function']}`" if site.violation.said["function"] else "the result"
        return site.report_violation(
            f"`out_axes=None` keeps one device's value, but {name} differs on each device.",
            help="reduce the result in the function (`jax.lax.pmean`), or write 0 in `out_axes`",
            why="no collective in the function makes the result equal on all devices",
        )
