"""SL430."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class VaryingTypeDiffers(Rule):
    """A value in `shard_map` varies over a mesh axis where jax requires one that is equal on all devices.

    With `check_vma=True`, the default, the axes over which a value varies are part of its type. jax raises when types
    differ.

    ## Reports
    - proven: a carry of `scan`, `fori_loop` or `while_loop` that starts equal on all devices and varies after the body.
    - proven: branches of `cond` or `switch` whose results vary over different axes.
    - proven: `jax.lax.pcast(x, axis, to="varying")` of a value that already varies over this axis.
    - proven: a result that varies over an axis which `out_specs` leave out.

    ## Write instead
    - For a carry, start the loop from `jax.lax.pcast(init, "data", to="varying")`.
    - For branches, return such a `pcast` from the branch that does not vary.
    - For a `pcast` of a value that varies already, remove it.
    - For a result, call `jax.lax.psum` or `pmean` before the return, or name the axis in `out_specs`.
    """

    code = "SL430"
    name = "varying-type-differs"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.3"}
    triggers = (Violates("carry.varying", "branches.varying", "cast.varying", "varying.declared-equal"),)
    fixes = "none"

    @detector("violation", of="carry.varying")
    def report_carry(self, site: Site) -> Finding:
        """A carry that starts equal on all devices."""
        said = site.violation.said
        return site.report_violation(
            f"`{said['operation']}` raises TypeError: its carry starts equal on all devices, and the body makes it "
            f"vary over `{said['axes']}`.",
            help=f'start from `jax.lax.pcast(init, "{said["axes"]}", to="varying")`',
            why=f"the carry starts as `{said['before']}`, and the body adds values of each device to it",
        )

    @detector("violation", of="branches.varying")
    def report_branch(self, site: Site) -> Finding:
        """A result that varies in one branch."""
        said = site.violation.said
        return site.report_violation(
            f"`{said['operation']}` raises TypeError: the result varies over `{said['axes']}` in only one branch.",
            help=f'return `jax.lax.pcast(x, "{said["axes"]}", to="varying")` from the branch that does not vary',
        )

    @detector("violation", of="cast.varying")
    def report_cast(self, site: Site) -> Finding:
        """A cast of what varies."""
        said = site.violation.said
        return site.report_violation(
            f"`pcast` raises ValueError: its argument varies over `{said['axes']}` already.",
            help="remove the `pcast`",
            why=f"the argument is `{said['array']}` on each device, and `in_specs` or a collective makes it vary",
        )

    @detector("violation", of="varying.declared-equal")
    def report_result(self, site: Site) -> Finding:
        """A result that is declared equal on all devices."""
        said = site.violation.said
        axes = f"`{said['axes']}`"
        return site.report_violation(
            f"This `shard_map` raises ValueError: a result varies over {axes}, which its `out_specs` leave out.",
            help=f"reduce the result over {axes}, or name the axis in `out_specs`",
            why=f"the result is `{said['shape']}` on each device",
        )
