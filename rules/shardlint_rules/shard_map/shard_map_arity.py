"""SL405."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class ShardMapArity(Rule):
    """The specs of a `shard_map` do not match the arguments or results of the function.

    The call raises ValueError after everything else was set up.

    ## Reports
    - proven: a tuple of `in_specs` with another number of entries than the function has parameters (bound self,
      `partial` and defaults counted), or than a call passes.
    - proven: a dict of specs without a key that the function reads of that argument.
    - proven: `out_specs` with another length, or with other keys, than the function returns or a call unpacks.
    - `on-a-way` (likely): the same on a branch that may not run, or if an option keeps its default.

    ## Limits
    One spec for all arguments or results is legal. Functions with `*args` are not reported.
    """

    code = "SL405"
    name = "shard-map-arity"
    harm = Harm.CRASH
    triggers = (Violates("specs.arguments", "specs.key", "specs.results"),)
    fixes = "none"
    by_hand = "the code does not show which spec belongs to which value"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of in_specs or out_specs."""
        said = site.violation.said
        if site.violation.kind == "specs.arguments":
            yield site.report_violation(
                f"The call of the mapped function raises ValueError: {said['mismatch']}.",
                help="pass one spec for each argument, or a single spec for all",
                why="a tuple of in_specs has one entry for each argument",
            )
        elif site.violation.kind == "specs.key":
            yield site.report_violation(
                f"The call raises: `in_specs` has no spec for `{said['read']}`.",
                help=f"add a spec for {said['key']}, or pass one spec for the whole dict",
                why=f"{said['where']} reads the key: an argument with it does not match its specs (ValueError), one "
                "without it fails the read (KeyError)",
            )
        else:
            yield site.report_violation(
                f"The call raises ValueError: `out_specs` does not match the result: {said['mismatch']}.",
                help="pass one spec for each result, or a single spec for all",
                why="out_specs is a tree prefix of what the function returns",
            )
