"""SL404."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.manual.varying import leaves
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._copies_summed import SUMS, summed_copies
from shardlint_rules.shard_map.runs import describe_location, events, join_reasons, operand, shown, too_large

_SUM = ("jax.lax.psum",)


class ReducedTwice(Rule):
    """`psum` over an axis along which the value is already replicated adds up equal copies.

    The result is too large by the number of devices along the axis, without an error.

    ## Reports
    - proven: `psum` of a value that was reduced over the axis before, if the sum reaches a result of the `shard_map`
      or `pmap` and is never divided.
    - `on-host` (likely): a sum on the host (`hits.sum()`) of a pmap result that the function already reduced.
    - `replicated` (possible): `psum` of a value whose in spec does not name the axis.

    ## Limits
    `psum(1, axis)`, values masked by `axis_index` (a broadcast) and gradients are not reported.
    """

    code = "SL404"
    name = "reduced-twice"
    harm = Harm.SILENT
    assumes = True
    likely = ("on-host",)
    assumptions: ClassVar[Mapping[str, str]] = {"on-host": "The host has more than one device."}
    triggers = (
        *MAPPING,
        Mapped(calling=(("psum",),)),
        Methods("sum", file_says=("pmap",)),
        Calls(*SUMS, file_says=("pmap",)),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each reduction."""
        if site.form == "method" or site.api in SUMS:
            yield from self._on_host(site)
            return
        done = set()
        for ran, event, node in events(site, "equal copies", inside=_SUM):
            number = ran.events.index(event)
            if node in done or not any(number in leaf.marks for leaf in leaves(ran.result)):
                continue
            if ran.mapped.axis == "" or not set(event.axes) <= ran.manual:
                continue  # the axis is not bound at all: SL406
            done.add(node)
            again = event.note == "again"
            evidence = (
                "it was reduced over the axis before" if again else "its in spec does not name the axis"
            )
            yield site.finding(
                node,
                f"`psum` adds up equal copies{operand(event, ' of ')}: the result is {too_large(ran, event.axes)}.",
                label=f"already replicated over {shown(event.axes)}",
                help="leave this psum out, or shard the argument over the axis",
                certainty=Certainty.PROVEN if again else Certainty.POSSIBLE,
                form="" if again else "replicated",
                why=join_reasons(evidence, describe_location(site, event)),
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
