"""SL404."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.model.manual.varying import leaves
from shardlint.rules_api.mapping import MAPPING
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Methods, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._copies_summed import SUMS, summed_copies
from shardlint_rules.shard_map.runs import devices, elsewhere, events, shown

_SUM = ("jax.lax.psum",)


class ReducedTwice(Rule):
    """`psum` over an axis along which all devices hold the same adds up equal copies.

    ## What it does
    Follows the values of a `shard_map` or `pmap` body and reports `psum` of one that is surely the same
    along the axis: it was reduced over it before, or comes of arguments whose in spec does not name it. Only where
    the sum reaches a result and is never divided. Likely: a sum on the host (`hits.sum()`) over what a pmapped function
    returned, which has reduced it over the devices: each of them has a copy of the same number.

    ## Why it hurts
    The result is as many times too large as there are devices along the axis, with no error on any release
    since jax 0.4.38.

    ## Evidence
    Run on jax 0.4.38 to 0.12 with 8 devices: 16128 where 2016 is right. Counting devices (`psum(1, axis)`), a value
    masked by `axis_index` (the usual broadcast), and gradients are left alone.
    """

    code = "SL404"
    name = "reduced-twice"
    harm = Harm.SILENT
    assumes = True
    likely = ("on-host",)
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
            whence = (
                "was reduced over it before"
                if again
                else "comes of arguments that are the same on all of them"
            )
            yield site.finding(
                node,
                f"On {site.release('jax')} this adds up equal copies: what it sums {whence}, so the result is "
                f"{devices(ran, event.axes)} times too large.",
                label=f"the same on all devices along {shown(event.axes)} already{elsewhere(site, event)}",
                help="leave the reduction out, or split the argument over the axis",
                certainty=Certainty.PROVEN if again else Certainty.POSSIBLE,
                form="" if again else "replicated",
            )

    def _on_host(self, site: Site) -> Iterator[Finding]:
        """A sum over the copies of what a pmapped function has reduced."""
        found = summed_copies(site) if site.wants("on-host") else None
        if found is None:
            return
        given, made = found
        yield site.finding(
            site.call,
            f"On {site.release('jax')} the function called at line {made.call.lineno} has reduced it over the devices: "
            "this adds up its copies, and is as many times too large as there are devices on this host.",
            label=f"`{site.text(given)}` has a copy of the same number for each device",
            help=f"take one of them: {site.text(given)}[0], or leave the reduction in the function out",
            certainty=Certainty.POSSIBLE,
            form="on-host",
            why="all that the function returns there went through a reduction over its axis",
        )
