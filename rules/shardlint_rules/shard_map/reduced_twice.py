"""SL404."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Methods, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._copies_summed import SUMS, summed_copies


class ReducedTwice(Rule):
    """`psum` over an axis along which the value is already replicated adds up equal copies.

    The result is too large by the number of devices along the axis, without an error.

    ## Reports
    - proven: `psum` of a value that was reduced over the axis before, if the sum reaches a result of the `shard_map`
      or `pmap` and is never divided.
    - `on-a-way` (likely): the same on a branch that may not run, or with an option at its default.
    - `on-host` (likely): a sum on the host (`hits.sum()`) of a pmap result that the function already reduced.

    ## Limits
    `psum(1, axis)`, values masked by `axis_index` (a broadcast) and gradients are not reported.
    """

    code = "SL404"
    name = "reduced-twice"
    harm = Harm.SILENT
    assumes = True
    likely = ("on-host", "on-a-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "on-host": "The host has more than one device.",
        "on-a-way": "The branch runs, and options keep their defaults.",
    }
    triggers = (
        Violates("copies.summed"),
        Methods("sum", file_says=("pmap",)),
        Calls(*SUMS, file_says=("pmap",)),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each reduction."""
        if site.form != "violation":
            yield from self._on_host(site)
            return
        said = site.violation.said
        factor = f"{said['factor']} times too large" if said["factor"] else f"scaled by the size of `{said['axes']}`"
        yield site.report_violation(
            f"`psum` adds up equal copies: the result is {factor}.",
            help="leave this psum out",
            why=f"the value was reduced over `{said['axes']}` before",
        )

    def _on_host(self, site: Site) -> Iterator[Finding]:
        """A sum over the copies of a value that a pmapped function has reduced."""
        found = summed_copies(site) if site.wants("on-host") else None
        if found is None:
            return
        given, made = found
        name = site.shown(given)
        yield site.finding(
            site.call,
            f"This sum adds up one equal copy of `{name}` per device: the pmapped function already reduced it.",
            help=f"take one copy: {name}[0]",
            certainty=Certainty.POSSIBLE,
            form="on-host",
            why=f"the call at line {made.call.lineno} returns it after a reduction over the pmap axis",
        )
