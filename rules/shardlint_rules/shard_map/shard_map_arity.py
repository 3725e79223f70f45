"""SL405."""

from __future__ import annotations

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class ShardMapArity(Rule):
    """The specs of a `shard_map` do not match the arguments or results of the function.

    The call raises ValueError. It raises late: the program has then finished its setup.

    ## Reports
    - proven: a tuple of `in_specs` whose length differs from the number of parameters, or from the number of arguments
      in a call. A bound `self`, `partial` and defaults are taken into account.
    - proven: a dict in `in_specs` that lacks a key which the function reads from this argument.
    - proven: `out_specs` whose length or keys differ from the result of the function. Also `out_specs` whose length
      differs from the number of results that a call unpacks.

    ## Limits
    Not reported: functions with `*args`, and a single spec for all arguments or all results. Such a spec is legal.
    """

    code = "SL405"
    name = "shard-map-arity"
    harm = Harm.CRASH
    triggers = (Violates("specs.arguments", "specs.key", "specs.results"),)
    fixes = "none"
    by_hand = "the code does not show which spec belongs to which value"

    @detector("violation", of="specs.arguments")
    def report_arguments(self, site: Site) -> Finding:
        """The in_specs of other arguments."""
        return site.report_violation(
            f"The call of the mapped function raises ValueError: {site.violation.said['mismatch']}.",
            help="pass one spec for each argument, or a single spec for all",
            why="a tuple of in_specs has one entry for each argument",
        )

    @detector("violation", of="specs.key")
    def report_key(self, site: Site) -> Finding:
        """The in_specs without a key that the function reads."""
        said = site.violation.said
        return site.report_violation(
            f"The call raises: `in_specs` has no spec for `{said['read']}`.",
            help=f"add a spec for {said['key']}, or pass one spec for the whole dict",
            why=f"{said['where']} reads the key: if the argument has this key, the specs do not match "
            "(ValueError), else the read fails (KeyError)",
        )

    @detector("violation", of="specs.results")
    def report_results(self, site: Site) -> Finding:
        """The out_specs of another result."""
        return site.report_violation(
            f"The call raises ValueError: `out_specs` does not match the result: {site.violation.said['mismatch']}.",
            help="pass one spec for each result, or a single spec for all",
            why="out_specs is a tree prefix of what the function returns",
        )
