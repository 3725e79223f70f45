"""SL431."""

from __future__ import annotations

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class MispairedShards(Rule):
    """An operation combines entries of different shards: its operands are sharded over different axes.

    In `shard_map` each device combines the shards that it has. In the example, `all_to_all` over `data` leaves `sent`
    sharded over `data` along its experts, while `weights` is sharded over `expert`. Some devices then multiply the
    tokens of one expert by the weights of another. The shards have equal shapes, so nothing raises.

    ## Reports
    - proven: a matrix product or `einsum` of two arrays that are sharded over different axes along a contracted or
      batch dimension.
    - proven: an elementwise operation of two such arrays.

    ## Write instead
    Shard both operands over the same axis: here `all_to_all` over `expert`, the axis of the weights.

    ## Limits
    Not reported: arrays that a `ppermute` moved, and dimensions whose axes the code does not show.
    """

    code = "SL431"
    name = "mispaired-shards"
    harm = Harm.SILENT
    triggers = (Violates("piece.mispaired"),)
    fixes = "none"

    @detector("violation")
    def report_operands(self, site: Site) -> Finding:
        """Two operands that are sharded over different axes along the dimension that pairs their entries."""
        said = site.violation.said
        return site.report_violation(
            f"`{said['operation']}` combines entries of different shards: its operands are sharded over "
            f"`{said['left']}` and `{said['right']}`.",
            help="shard both over the same axis: in `in_specs`, or in the `all_to_all` that precedes this operation",
            why=f"dimension {said['dimension']} of the left operand meets dimension {said['other']} of the right one",
        )
