"""SL410."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class ReplicatedAsSharded(Rule):
    """`out_specs` of a `shard_map` shard a result that is already replicated.

    jax concatenates the copies. With eight devices along the axis, the result is eight times too long. A later
    operation that needs the right shape raises. A norm, a sum or a broadcast of the result is silently wrong.
    `check_vma` does not detect the mistake.

    ## Reports
    - `extra-axes` (likely): a `psum` or `pmean` over several axes, if the out spec names only some of them. Different
      shards are then added up.
    - `reduced` (possible): a result of `psum`, `pmean`, `pmax` or `pmin` whose out spec names the reduced axis.
    - `gathered` (possible): a result of `all_gather` whose out spec names the gathered axis.

    ## Limits
    Not reported: tests, and results with a new dimension for the devices (`loss[None]`).
    """

    code = "SL410"
    name = "replicated-as-sharded"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("extra-axes",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "extra-axes": "The shards along the axis that the out spec names differ."
    }
    triggers = (Violates("result.repeated", is_conditional=False),)
    in_tests = False
    fixes = "none"

    @detector("violation")
    def report_result(self, site: Site) -> Finding:
        """The result that has a copy for each device."""
        said = site.violation.said
        axes, name = f"`{said['axes']}`", said["function"]
        if said["beyond"]:
            return site.report_violation(
                f"Different shards along {axes} are summed, and the sum is repeated on each device.",
                help=f"reduce over `{said['beyond']}` only",
                form="extra-axes",
                why=f"the out spec shards the result over {axes}",
            )
        return site.report_violation(
            f"`out_specs` concatenates identical copies over {axes}: "
            f"the result of {f'`{name}`' if name else 'the function'} is already replicated.",
            help=f"remove {axes} from the out spec of this result",
            form=said["by"],
            why=f"a collective over {axes} made the result equal on these devices",
        )
