"""SL417."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Certainty, Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site


class ReplicatedTwice(Rule):
    """A replicated tree is replicated again, or `unreplicate` is called on a single copy.

    A second `replicate` gives each array a second leading dimension, which raises in the model or broadcasts. A second
    `unreplicate` takes the first row of every array, and a checkpoint then holds the first row of each weight. Scalars
    raise IndexError, or stay as they are in newer releases of flax.

    ## Reports
    - `replicated-twice` (likely): `replicate` of a result of `replicate` or of a pmapped function, also through a
      project function or a checkpoint restored into a replicated target.
    - `unreplicated-twice` (likely): `unreplicate` of a result of `unreplicate`, also if a caller made the first call.
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
    triggers = (Violates("rows.again", "rows.taken"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of what is replicated, or taken."""
        said = site.violation.said
        made = f"line {said['line']} of {said['file']}"
        if site.violation.kind == "rows.again":
            yield site.report_violation(
                f"Each array gets a second leading device dimension: `{site.shown()}` is already replicated.",
                help="remove this call of `replicate`",
                form="replicated-twice",
                why=f"the call at {made} added the first one",
            )
        else:
            yield site.report_violation(
                f"This keeps only the first row of each array: `{site.shown()}` is already one copy.",
                help="remove this call of `unreplicate`",
                harm=Harm.SILENT,
                form="unreplicated-twice",
                why=f"unreplicate takes `x[0]`; {made} already did",
            )
