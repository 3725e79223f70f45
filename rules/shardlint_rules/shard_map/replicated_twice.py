"""SL417."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class ReplicatedTwice(Rule):
    """A replicated tree is replicated again, or `unreplicate` is called on a single copy.

    - A second `replicate` gives each array a second leading dimension. The model then raises, or broadcasts over it.
    - A second `unreplicate` takes the first row of every array. A checkpoint then stores only the first row of each
      weight. A scalar raises IndexError. Newer releases of flax return the scalar unchanged.

    ## Reports
    - `replicated-twice` (likely): `replicate` of a result of `replicate` or of a pmapped function. Also if a project
      function returns this result, or if a checkpoint was restored into a replicated target.
    - `unreplicated-twice` (likely): `unreplicate` of a result of `unreplicate`. The first call may be in a caller.
    """

    code = "SL417"
    name = "replicated-twice"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("replicated-twice", "unreplicated-twice")
    assumptions: ClassVar[Mapping[str, str]] = {
        "replicated-twice": "The program calls these functions in this order.",
        "unreplicated-twice": "The program calls these functions in this order.",
    }
    triggers = (Violates("rows.again", "rows.taken", is_conditional=False),)
    fixes = "none"

    @detector("violation", of="rows.again", finds="replicated-twice")
    def report_replicate(self, site: Site) -> Finding:
        """The replication of what is replicated."""
        said = site.violation.said
        return site.report_violation(
            f"Arrays get a second device dimension, which pmapped functions do not expect: `{site.shown()}` is already "
            "replicated.",
            help="remove this call of `replicate`",
            why=f"the call at line {said['line']} of {said['file']} added the first one",
        )

    @detector("violation", of="rows.taken", finds="unreplicated-twice")
    def report_unreplicate(self, site: Site) -> Finding:
        """The copy that is taken of a single copy."""
        said = site.violation.said
        return site.report_violation(
            f"This keeps only the first row of each array: `{site.shown()}` is already one copy.",
            help="remove this call of `unreplicate`",
            harm=Harm.SILENT,
            why=f"unreplicate takes `x[0]`; line {said['line']} of {said['file']} already did",
        )
