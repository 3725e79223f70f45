"""SL404."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class ReducedTwice(Rule):
    """A `psum` adds up equal copies: the value is already replicated along the axis.

    The result is too large by the number of devices along the axis. Nothing raises.

    ## Reports
    - proven: `psum` of a value that was already reduced over the axis, if the sum reaches a result of the `shard_map`
      or `pmap` and is never divided.
    - `on-host` (likely): a sum on the host (`hits.sum()`) of a pmap result that the function already reduced.

    ## Limits
    Not reported: `psum(1, axis)`, sums of gradients, and values that `axis_index` masks (a broadcast from one device).
    """

    code = "SL404"
    name = "reduced-twice"
    harm = Harm.SILENT
    likely = ("on-host",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "on-host": "The host has more than one device.",
    }
    triggers = (Violates("copies.summed", "rows.summed"),)
    fixes = "none"

    @detector("violation", of="copies.summed")
    def report_psum(self, site: Site) -> Finding:
        """A psum of equal copies."""
        said = site.violation.said
        factor = (
            f"{said['factor']} times too large" if said["factor"] else f"multiplied by the size of `{said['axes']}`"
        )
        return site.report_violation(
            f"`psum` adds up equal copies: the result is {factor}.",
            help="remove this `psum`",
            why=f"the value was reduced over `{said['axes']}` before",
        )

    @detector("violation", of="rows.summed", finds="on-host")
    def report_sum_on_host(self, site: Site) -> Finding | None:
        """A sum over the copies of a value that a pmapped function has reduced."""
        if site.violation.said["entries"] != "reduced" or _is_divided(site):
            return None
        name, line = site.shown(_find_summand(site)), site.violation.said["line"]
        return site.report_violation(
            f"This sum adds up one equal copy of `{name}` per device: the pmapped function already reduced it.",
            help=f"write `{name}[0]` in place of `{name}`",
            why=f"the call at line {line} returns `{name}` after a reduction over the pmap axis",
        )


def _find_summand(site: Site) -> ast.expr:
    """The array that is added up: `x` of `x.sum()` and of `np.sum(x)`."""
    func = site.call.func
    if site.call.args and any(isinstance(one, Api) for one in options(site.value(func))):
        return site.call.args[0]
    return getattr(func, "value", site.call)


def _is_divided(site: Site) -> bool:
    """Return whether another result of the same call is summed in the same way, so that the quotient of the sums is
    right.
    """
    line, scope = site.violation.said["line"], site.scope.enclosing_function()
    return any(
        one.kind == "rows.summed" and one.said["line"] == line and one.place.node is not site.syntax
        and site.file.evaluation_scope(one.place.node).enclosing_function() is scope
        for one in site.violations
    )  # fmt: skip
