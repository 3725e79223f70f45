"""SL420."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class PmapAxesArity(Rule):
    """`in_axes` or `out_axes` of `pmap` does not match the arguments or results of the function.

    The call raises ValueError ("pytree structure error"). A common cause is an argument or result that was added or
    removed.

    ## Reports
    - proven: a tuple for `in_axes` with more entries than the function has parameters, or whose length differs from the
      number of positional arguments in a call.
    - proven: a list for `in_axes`.
    - proven: a tuple for `out_axes` whose length or kind differs from what the function returns.
    - `too-few` (likely): a tuple for `in_axes` with fewer entries than the function has required parameters, if
      shardlint finds no call.

    ## Write instead
    Write one entry for each argument or result, or a single number for all of them.

    ## Limits
    Arguments passed by keyword and omitted defaults have no entry. A static
    argument needs an entry only if a mapped argument comes after it.
    """

    code = "SL420"
    name = "pmap-axes-arity"
    harm = Harm.CRASH
    likely = ("too-few",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "too-few": "The callers pass all required arguments by position.",
    }
    triggers = (Violates("axes.arguments", "axes.results"),)
    in_version_checks = False
    fixes = "none"
    by_hand = "the code does not show which axis belongs to which value"

    @detector("violation", of="axes.arguments")
    def report_arguments(self, site: Site) -> Finding:
        """The in_axes of other arguments."""
        return site.report_violation(
            f"The call raises ValueError: `in_axes` does not match the arguments: {site.violation.said['mismatch']}.",
            help="write one entry for each argument, or a single number for all",
            why="in_axes is a tree prefix of the arguments; arguments passed by position have one entry each",
            form=site.violation.said.get("form", ""),
        )

    @detector("violation", of="axes.results")
    def report_results(self, site: Site) -> Finding:
        """The out_axes of another result."""
        return site.report_violation(
            f"The call raises ValueError: `out_axes` does not match the result: {site.violation.said['mismatch']}.",
            help="write one entry for each result, or a single number for all",
            why="out_axes is a tree prefix of the results",
        )
