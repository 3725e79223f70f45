"""SL413."""

from __future__ import annotations

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map.branches import rests_on_plain_flags


class ConstraintOnManualAxis(Rule):
    """A sharding constraint in the body of a `shard_map` names a manual axis.

    Manual axes are the mesh axes that the `shard_map` binds: all axes, or those in `axis_names`. In the body each
    device has only its shard along them. jax raises ValueError when the function is traced.

    ## Reports
    - proven: `with_sharding_constraint` or `eqx.filter_shard` in the body of a `shard_map` or in a helper that it
      calls, whose spec names an axis that the `shard_map` binds.

    ## Limits
    Not reported: axes that `axis_names` leaves out, which are not manual. Write a spec without a mesh for them,
    `P("model")`: from jax 0.8.1 a NamedSharding raises ValueError for a value that varies over a manual axis.
    """

    code = "SL413"
    name = "constraint-on-manual-axis"
    harm = Harm.CRASH
    triggers = (Violates("constraint.manual"),)
    fixes = "none"

    @detector("violation")
    def report_constraint(self, site: Site) -> Finding | None:
        """The constraint with a manual axis."""
        if not site.violation.certain and not rests_on_plain_flags(site.violation):
            return None  # it may ask which axes are manual
        axes = f"`{site.violation.said['axes']}`"
        return site.report_violation(
            f"Tracing raises ValueError: the constraint names {axes}, a manual axis of this shard_map.",
            help="remove the constraint: `in_specs` and `out_specs` set the sharding",
            why="in the body each device has only its shard",
        )
